// Package gains tests, with a real gateway, that what two workers tell of their requests becomes statistics.
package gains

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/internal/enginesim"
	"github.com/warmgate/warmgate/internal/vllmsim"
	"github.com/warmgate/warmgate/internal/vllmsim/vllmsimtest"
	"github.com/warmgate/warmgate/plugin/stats"
)

// TestGains sends prompts of different length, each of which begins as many others, to two servers of four slots.
func TestGains(t *testing.T) {
	o := harness.Options{Config: `{"lb_policy":"prefix_cache","lb_config":{"max_inflight":4,` +
		`"envoy":{"admin_cluster":"warmgate-admin"}}}`}
	for i := range 2 {
		o.Endpoints = append(o.Endpoints, harness.ServeT(t, vllmsimtest.StartT(t, vllmsim.Config{
			Index: i, Config: enginesim.Config{MaxNumSeqs: 4}, Tuning: vllmsim.DefaultTuning(),
		})))
	}
	g := harness.StartT(t, o)
	const clients, each = 4, 25
	var all sync.WaitGroup
	for client := range clients {
		all.Add(1)
		go func() {
			defer all.Done()
			rng := rand.New(rand.NewPCG(1, uint64(client)))
			for i := range each {
				text := strings.Repeat("the same words ", 200) + fmt.Sprint(client, i) +
					strings.Repeat(fmt.Sprint(" ", rng.Uint32()), rng.IntN(500))
				send(t, g.URL(), text)
			}
		}()
	}
	all.Wait()
	if t.Failed() {
		return
	}
	harness.Await(t, func() error { // the first ones may have come before one of the VMs led
		if n := g.SumT(t, stats.NativePicks); n < 0.9*clients*each || n > clients*each {
			return fmt.Errorf("%.0f of %d requests are known in the world of least_request", n, clients*each)
		}
		return nil
	})
	page := g.PrometheusT(t)
	for _, want := range []string{
		stats.NativePicks + `{cluster="llm",result="elsewhere"}`, stats.NativePicks + `{cluster="llm",result="same"}`,
		stats.SlotWait + `{policy="least_request",cluster="llm"}`, stats.SlotWait + `{policy="prefix_cache",cluster="llm"}`,
		stats.IdleWait + `{policy="least_request",cluster="llm"}`, stats.IdleWait + `{policy="prefix_cache",cluster="llm"}`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("nowhere is %s", want)
		}
	}
	g.DrainedT(t)
}

// send sends a prompt, and reads the stream to its end.
func send(t *testing.T, url, text string) {
	body := `{"model":"m","stream":true,"stream_options":{"include_usage":true},"max_tokens":4,` +
		`"messages":[{"role":"user","content":"` + text + `"}]}`
	answer, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("%s, %v", answer.Status, err)
	}
}
