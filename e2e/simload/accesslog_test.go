package simload

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/bench/scripted"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/traffic"
	"github.com/warmgate/warmgate/internal/accesslog"
	"github.com/warmgate/warmgate/internal/simulate"
	"github.com/warmgate/warmgate/internal/simulate/calibrate"
	"github.com/warmgate/warmgate/internal/vllmsim"
	"github.com/warmgate/warmgate/internal/vllmsim/vllmsimtest"
)

// logged is how many requests the test of the access log sends.
const logged = 240

// model is one of the servers behind the gateway.
func model() vllmsim.Config {
	c := traffic.Engine(8, 1<<17)
	c.Tuning.DecodeStepMS = 2
	return c
}

// serveLogged has an Envoy with the shipped JSON format serve conversations, and returns its access log.
func serveLogged(t *testing.T) *accesslog.Log {
	t.Helper()
	var shipped yaml.Node
	if err := yaml.Unmarshal(harness.ReadT(t, "envoy-config/access-log.yaml"), &shipped); err != nil {
		t.Fatal(err)
	}
	section, err := harness.Find(&shipped, "access_log")
	if err != nil {
		t.Fatal(err)
	}
	o := harness.Options{
		Workers: 2,
		Config: `{"lb_policy":"prefix_cache","lb_config":{"debug_headers":true,"telemetry":{"log":"fields"},
			"envoy":{"admin_cluster":"warmgate-admin"}}}`,
		Edit: harness.OfFile("envoy.yaml", func(doc *yaml.Node) error {
			return harness.Set(doc, harness.ManagerPath+".access_log", section)
		}),
	}
	for range 3 {
		o.Endpoints = append(o.Endpoints, harness.Endpoint{Addr: vllmsimtest.StartT(t, model()).Addr()})
	}
	g := harness.StartT(t, o)
	harness.AwaitReason(t, g.URL(), "chosen") // both workers know the endpoints
	rng := rand.New(rand.NewPCG(1, 2))
	systems := []string{loadgen.Text(rng, 500), loadgen.Text(rng, 700), loadgen.Text(rng, 900)}
	scripts := traffic.Conversations(rng, logged/4, func(i int) []loadgen.Message {
		return []loadgen.Message{traffic.System(systems[i%len(systems)])}
	}, 4, 100, 30)
	client := loadgen.NewClient(loadgen.Options{URL: g.URL() + compare.Path})
	defer client.Close()
	p := scripted.Player{Client: client}
	for _, s := range p.Play(context.Background(), scripts, 9) {
		if !s.OK() {
			t.Fatalf("%+v", s)
		}
	}
	var log *accesslog.Log
	var lines string
	harness.Await(t, func() error {
		lines = chats(g.AccessLog())
		log, err = accesslog.Parse(strings.NewReader(lines))
		if err == nil && (len(log.Requests) != logged || log.Bad > 0) {
			err = fmt.Errorf("%d lines, bad ones %d: %w", len(log.Requests), log.Bad, log.FirstBad)
		}
		return err
	})
	areTyped(t, lines)
	return log
}

// chats returns the lines of the conversations.
func chats(log string) string {
	var b strings.Builder
	for line := range strings.Lines(log) {
		if strings.Contains(line, `"path":"`+compare.Path+`"`) {
			b.WriteString(line)
		}
	}
	return b.String()
}

// areTyped requires that the fields in a log have the types that they are documented with.
func areTyped(t *testing.T, log string) {
	t.Helper()
	for line := range strings.Lines(log) {
		var r struct {
			Note   string `json:"warmgate"`
			Fields struct {
				Value map[string]any `json:"value"`
			} `json:"warmgate_fields"`
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if strings.Contains(r.Note, "ttft=") {
			t.Fatalf("the line has what the fields have: %q", r.Note)
		}
		for _, name := range []string{
			"ttft_ms", "prefill_ms", "prompt_tokens", "cached_tokens", "output_tokens", "match", "prompt_bytes",
			"lost_by",
		} {
			if _, ok := r.Fields.Value[name].(float64); !ok {
				t.Fatalf("%s is no number: %s", name, line)
			}
		}
		texts := []string{"endpoint", "reason", "policy", "outcome", "model", "runner_up", "rule", "prompt"}
		for _, name := range texts {
			if text, _ := r.Fields.Value[name].(string); text == "" {
				t.Fatalf("%s is no text: %s", name, line)
			}
		}
	}
}

// TestReplayOfARealGateway replays the access log of a real Envoy before simulated servers, with the times to which its
// log was fitted: as much of the prompts is cached as it was there, and less with a policy that does not look for that.
func TestReplayOfARealGateway(t *testing.T) {
	log := serveLogged(t)
	prompt, cached, times := 0, 0, make([]float64, 0, logged)
	atOnce := 0 // of a busy gateway, which finds the answer when it looks up from sending the request
	for i := range log.Requests {
		r := &log.Requests[i]
		if r.Prefill == 0 {
			atOnce++
		}
		if !r.Served() || atOnce > logged/10 || len(r.Marks) == 0 || r.Reason != "chosen" {
			t.Fatalf("%+v, %d answered at once", r, atOnce)
		}
		prompt, cached, times = prompt+r.Prompt, cached+r.Cached, append(times, r.Prefill.Seconds())
	}
	slices.Sort(times)
	real, played := float64(cached)/float64(prompt), simulate.FromLog(log.Requests)
	fitted, err := calibrate.FitLog(played)
	if err != nil || played.Unsized+played.Alone+played.Estimated > 0 {
		t.Fatalf("%+v, %v", played, err)
	}
	t.Logf("fitted %+v", fitted)
	engine := simulate.Engine{Config: model().Config, Times: fitted.Times}
	got := map[string]*simulate.Result{}
	for _, policy := range []string{"prefix_cache", "round_robin"} {
		c, err := simulate.OfPolicy(policy)
		if err != nil {
			t.Fatal(err)
		}
		got[policy], err = simulate.Run(played.Recording().New(1), simulate.Alike(3, engine), c, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: cached %.3f, TTFT %.1f ms", policy, got[policy].Cached, 1e3*got[policy].TTFT.P50)
	}
	t.Logf("real: cached %.3f, TTFT %.1f ms", real, 1e3*times[len(times)/2])
	if off := math.Abs(got["prefix_cache"].Cached - real); off > 0.05 || got["round_robin"].Cached > real-0.02 {
		t.Errorf("cached: really %.3f, prefix_cache %.3f, round_robin %.3f", real, got["prefix_cache"].Cached,
			got["round_robin"].Cached)
	}
}
