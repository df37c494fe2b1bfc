package higresshost_test

import (
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/fakehost"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/higresshost"
)

// scaled is traffic to a pool whose servers come and go.
type scaled struct {
	t      *testing.T
	gw     *higresshost.Gateway
	open   []*higresshost.Stream
	sent   int
	served int
	came   time.Time                    // when there was a healthy server again
	waited map[*higresshost.Stream]bool // those that waited then
	woken  []time.Duration              // how long after that they reached one
}

const scaleStep = 5 * time.Millisecond

// run lets time pass in which requests come and are answered.
func (s *scaled) run(d time.Duration) {
	s.t.Helper()
	for end := s.gw.Now().Add(d); s.gw.Now().Before(end); {
		if s.sent%4 == 0 {
			s.open = append(s.open, s.gw.Workers()[s.sent/4%2].Request("POST", completions, chat))
		}
		s.sent++
		s.gw.Advance(scaleStep)
		s.open = slices.DeleteFunc(s.open, func(r *higresshost.Stream) bool {
			if r.Code != 0 {
				s.t.Fatalf("a request is lost: %d %s", r.Code, r.Details)
			}
			if r.Upstream() == "" {
				return false
			}
			if s.waited[r] {
				delete(s.waited, r)
				s.woken = append(s.woken, s.gw.Now().Sub(s.came))
			}
			if s.sent%8 != 0 {
				return false
			}
			s.served++
			r.Respond(200, `{"choices":[{"text":"ok"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`)
			return true
		})
	}
}

// reached returns how many of the open requests are at a server.
func (s *scaled) reached() (n int) {
	for _, r := range s.open {
		if r.Upstream() != "" {
			n++
		}
	}
	return n
}

// toZero lets the last server drain and leave.
func (s *scaled) toZero(last *fakehost.Endpoint) {
	s.t.Helper()
	last.Health = "Draining"
	before := last.Total()
	s.run(500 * time.Millisecond)
	if n := last.Total() - before; n != 0 {
		s.t.Errorf("%d requests went to a server that is draining", n)
	}
	s.gw.Cluster("llm").Remove(last.Addr)
	s.run(2 * time.Second)
	s.waited, s.woken = map[*higresshost.Stream]bool{}, nil
	for _, r := range s.open {
		s.waited[r] = true
	}
	if s.reached() != 0 || len(s.waited) < 50 {
		s.t.Fatalf("%d of %d requests are at a server, and there is none", s.reached(), len(s.waited))
	}
}

// TestPoolFromZero has a pool go from one server to none, to three and back to one under traffic, with the plugin in
// the place of ai-endpoint-picker and no setting of its own: no request is lost, or reaches a server that is leaving.
func TestPoolFromZero(t *testing.T) {
	gw := higresshost.Start(t, higresshost.Options{
		Wasm: harness.ModuleT(t, harness.HostHigress), Config: poolConfig, Route: "pool", Workers: 2,
	})
	llm := gw.Cluster("llm")
	add := func(addr string) *fakehost.Endpoint {
		e := llm.Add(addr)
		e.Metrics = poolPage(0, 0)
		return e
	}
	s := &scaled{t: t, gw: gw}
	last := add(addrs[0])
	s.run(time.Second)
	for cycle := range 2 {
		s.toZero(last)
		var came []*fakehost.Endpoint
		for _, addr := range addrs[:3] {
			e := add(addr)
			e.Health = fakehost.Unhealthy // it was not checked yet
			came = append(came, e)
		}
		s.run(300 * time.Millisecond)
		if s.reached() != 0 {
			t.Fatal("a request went to a server that was not checked yet")
		}
		for _, e := range came {
			e.Health = fakehost.Healthy
		}
		s.came = gw.Now()
		s.run(2 * time.Second)
		if len(s.waited) > 0 {
			t.Fatalf("%d of %d that waited are not served", len(s.waited), len(s.woken))
		}
		if t.Logf("cycle %d: %d had waited; the first reached a server after %v, the 16th after %v, the last after %v",
			cycle, len(s.woken), s.woken[0], s.woken[15], s.woken[len(s.woken)-1]); s.woken[15] > 100*time.Millisecond {
			t.Errorf("the first 16 are served after %v", s.woken[15]) // time is simulated
		}
		for _, e := range came[1:] {
			e.Health = "Draining"
		}
		s.run(500 * time.Millisecond)
		for _, e := range came[1:] {
			llm.Remove(e.Addr)
		}
		last = came[0]
		s.run(time.Second)
	}
	if n := decisionsOf(gw, "prefix_cache", "chosen"); n < uint64(s.served) {
		t.Errorf("%d of %d requests were placed", n, s.served)
	}
	for _, r := range s.open {
		r.ResetByClient()
	}
	audit(t, gw)
}
