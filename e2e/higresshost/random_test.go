package higresshost_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/fakehost"
	"github.com/warmgate/warmgate/e2e/higresshost"
)

// life drives random requests through the shipped plugin.
type life struct {
	*testing.T
	gw   *higresshost.Gateway
	rnd  *rand.Rand
	open []*higresshost.Stream
}

// TestRandomLives plays many requests that end in all ways, with endpoints, configurations and VMs changing at the same
// time. No lease may be counted twice or never released, and no counter may fall below zero, which the host records.
func TestRandomLives(t *testing.T) {
	placed := uint64(0)
	for seed := range uint64(6) {
		l := &life{
			T: t, rnd: rand.New(rand.NewPCG(seed, 1)),
			gw: warmgate(t, higresshost.Options{Workers: 2, Seed: seed, Profile: higresshost.Profile(seed % 2)}),
		}
		crashed := false
		for step := range 300 {
			crashed = l.step() || crashed
			if step%50 == 49 && !crashed {
				l.audit()
			}
		}
		for _, s := range l.open {
			if !s.Ended {
				s.ResetByClient()
			}
		}
		l.gw.Advance(8 * time.Second)
		audit(t, l.gw)
		placed += decisionsOf(l.gw, "endpoint_metrics", "chosen")
		if t.Failed() {
			t.Fatalf("seed %d; log: %v", seed, l.gw.Logs(higresshost.LogWarn))
		}
	}
	if placed < 50 {
		t.Errorf("only %d requests went where metrics sent them", placed)
	}
}

// step does one thing and reports whether it broke a VM.
func (l *life) step() bool {
	w := l.gw.Worker(l.rnd.IntN(2))
	switch n := l.rnd.IntN(100); {
	case n < 45:
		l.open = append(l.open, l.begin(w))
	case n < 85:
		l.progress()
	case n < 88:
		page := []string{"", "<html>", storedPage(l, l.rnd.IntN(1000), l.rnd.IntN(20), 4<<10)}[l.rnd.IntN(3)]
		l.gw.Cluster("llm").Endpoint(addrs[l.rnd.IntN(len(addrs))]).Metrics = page
	case n < 90:
		e := l.gw.Cluster("llm").Endpoint(addrs[l.rnd.IntN(len(addrs))])
		e.Health = []fakehost.Health{fakehost.Healthy, fakehost.Healthy, fakehost.Unhealthy}[l.rnd.IntN(3)]
	case n < 93:
		push(l.gw, []string{leastRequest, byTokens, byMetrics, byReports, `{"enabled":false}`}[l.rnd.IntN(5)])
	case n < 99:
		l.gw.Advance(time.Duration(l.rnd.IntN(400)) * time.Millisecond)
	default:
		w.Trap()
		return true
	}
	return false
}

// audit compares the plugin's counts with the open requests that it has decided on. Requests left to native balancing
// are counted nowhere, and a retry moves its count when the response begins.
func (l *life) audit() {
	l.Helper()
	l.gw.Advance(1200 * time.Millisecond)
	want := map[string]int64{}
	for _, s := range l.open {
		note := s.FilterState["warmgate"]
		if s.Ended || !strings.Contains(note, "reason=chosen") && !strings.Contains(note, "reason=body_late") {
			continue
		}
		host := s.Upstream()
		if s.Received.Headers == nil {
			host = s.Override
		}
		want[host]++
	}
	for _, a := range addrs {
		counted := l.gw.Metrics().Gauge("warmgate_inflight_requests;cluster=llm;endpoint=" + a)
		if counted != want[a] {
			l.Errorf("%s: %d counted, want %d", a, counted, want[a])
		}
	}
}

// begin sends some part of a request.
func (l *life) begin(w *higresshost.Worker) *higresshost.Stream {
	s := w.NewStream()
	s.RequestHeaders(fakehost.H(":method", "POST", ":path", completions, ":authority", "a"), false)
	for _, part := range []struct {
		data string
		end  bool
	}{{chat[:30], false}, {chat[30:], false}, {"", true}} {
		if s.Ended || l.rnd.IntN(8) == 0 {
			break
		}
		s.RequestBody([]byte(part.data), part.end)
	}
	return s
}

// progress moves one open request on, in a random way that its state allows.
func (l *life) progress() {
	for len(l.open) > 0 {
		i := l.rnd.IntN(len(l.open))
		s := l.open[i]
		if s.Ended {
			l.open = append(l.open[:i], l.open[i+1:]...)
			continue
		}
		switch n := l.rnd.IntN(10); {
		case !s.OnUpstream || n == 0:
			s.ResetByClient()
		case s.Received.Headers != nil && n < 5:
			s.ResponseBody([]byte("data: {}\n\n"), n == 1)
		case s.Received.Headers != nil:
			s.ResetByUpstream()
		case n < 3:
			begin(s)
		case n == 3:
			s.ResetByUpstream()
		case n == 4:
			s.Retry()
		case n == 5:
			s.IdleTimeout()
		default:
			s.Respond([]int{200, 200, 429, 500}[l.rnd.IntN(4)], "{}",
				"endpoint-load-metrics", []string{"TEXT num_requests_waiting=3", "garbage"}[l.rnd.IntN(2)])
		}
		return
	}
}
