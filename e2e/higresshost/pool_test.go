package higresshost_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/higresshost"
)

// poolConfig is what Higress's controller writes into the plugin that it binds to the routes of InferencePools, and
// poolPage what it has the health check of a pool's cluster store.
const poolConfig = `{"_rules_":[{"_match_route_":["pool","default/foo/0/0"]}]}`

func poolPage(running, waiting int) string {
	return fmt.Sprintf("vllm:num_requests_running %d\nvllm:num_requests_waiting %d\nvllm:kv_cache_usage_perc 0.3\n",
		running, waiting)
}

// TestInferencePool has the plugin in the place of ai-endpoint-picker, without a setting of its own.
func TestInferencePool(t *testing.T) {
	for _, profile := range []higresshost.Profile{higresshost.Higress22, higresshost.Higress21} {
		t.Run(profile.String(), func(t *testing.T) {
			gw := higresshost.Start(t, higresshost.Options{
				Wasm: harness.ModuleT(t, harness.HostHigress), Config: poolConfig, Profile: profile, Route: "pool",
				Workers: 2,
			})
			for _, a := range addrs {
				gw.Cluster("llm").Add(a).Metrics = poolPage(0, 0)
			}
			w := gw.Workers()[0]
			w.Request("GET", "/health", "").Respond(200, "ok")
			homes := map[int]string{}
			for i := range 12 {
				which := i % 4
				prompt := fmt.Sprintf("You are assistant %d. %s", which, strings.Repeat("Be brief. ", 200))
				got := promptTo(gw.Workers()[i/4%2], prompt)
				if home := homes[which]; home != "" && got != home {
					t.Errorf("prompt %d went to %s, want %s, which has it", which, got, home)
				}
				homes[which] = got
				gw.Advance(time.Second)
			}
			if n := decisionsOf(gw, "prefix_cache", "chosen"); n < 12 {
				t.Errorf("%d requests were placed by their prompts", n)
			}
			audit(t, gw)
		})
	}
}

// TestInferencePoolBusy lets the engines' queues fill up: requests wait in the gateway, and none is refused.
func TestInferencePoolBusy(t *testing.T) {
	gw := higresshost.Start(t, higresshost.Options{
		Wasm: harness.ModuleT(t, harness.HostHigress), Config: poolConfig, Route: "default/foo/0/0",
	})
	for _, a := range addrs {
		gw.Cluster("llm").Add(a).Metrics = poolPage(0, 0)
	}
	w := gw.Workers()[0]
	var open []*higresshost.Stream
	waiting, served := 0, 0
	for i := range 200 {
		if i < 60 {
			open = append(open, w.Request("POST", completions, fmt.Sprintf(`{"model":"m","prompt":"question %d"}`, i)))
		}
		for _, e := range gw.Cluster("llm").Endpoints() {
			e.Metrics = poolPage(min(e.Active(), 4), max(e.Active()-4, 0)) // the batch has room for four
		}
		gw.Advance(300 * time.Millisecond)
		answered := 0
		for _, s := range open {
			switch {
			case s.Code == 0 && s.Upstream() == "":
				waiting++
			case s.Code == 0 && i%4 == 0 && answered < 2:
				s.Respond(200, `{"choices":[{"text":"ok"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`)
				answered++
			}
		}
		served += answered
	}
	if waiting == 0 {
		t.Error("no request waits, though the engines are full")
	}
	if served != len(open) {
		t.Errorf("%d of %d were served", served, len(open))
	}
	audit(t, gw)
}

// promptTo sends the prompt through the worker, and returns who has served it.
func promptTo(w *higresshost.Worker, prompt string) string {
	s := w.Request("POST", completions, `{"model":"m","prompt":"`+prompt+`"}`)
	s.Respond(200, `{"choices":[{"text":"ok"}],"usage":{"prompt_tokens":500,"completion_tokens":1}}`)
	return s.Upstream()
}
