package policy_test

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// Engine samples decide between endpoints with equal counted load.
func TestEngineCosts(t *testing.T) {
	for _, c := range []struct {
		name     string
		pages    [2][]string
		inflight [2]int64
		want     int
	}{
		{"requests of others", [2][]string{{running(9), waiting(0)}, {running(3), waiting(0)}}, [2]int64{3, 3}, 1},
		{"a queue of others", [2][]string{{running(4), waiting(6)}, {running(4), waiting(0)}}, [2]int64{4, 4}, 1},
		{"rather busy than in a queue", [2][]string{
			{running(4), waiting(1)}, {running(8), waiting(0)},
		}, [2]int64{5, 8}, 1},
		{"an idle one all the same", [2][]string{
			{running(4), waiting(1)}, {running(40), waiting(0)},
		}, [2]int64{5, 40}, 0},
		{"a full KV cache", [2][]string{
			{running(2), waiting(0), kvUse(0.9)}, {running(2), waiting(0), kvUse(0.1)},
		}, [2]int64{2, 2}, 1},
		{"no word of the KV cache is no merit", [2][]string{
			{running(3), waiting(0)}, {running(2), waiting(0), kvUse(0.1)},
		}, [2]int64{3, 2}, 1},
		{"room in the KV cache for no more", [2][]string{
			{running(2), waiting(0), kvUse(0.9)},
			{running(4), waiting(0), kvUse(0.15)},
		}, [2]int64{2, 4}, 1},
		{"what waits for something else is no queue", [2][]string{
			{running(4), waiting(3), `vllm:num_requests_waiting_by_reason{reason="deferred"} 3`}, {running(5), waiting(0)},
		}, [2]int64{4, 5}, 0},
		{"asleep", [2][]string{
			{running(0), waiting(0), `vllm:engine_sleep_state{sleep_state="awake"} 0`},
			{running(9), waiting(0)},
		}, [2]int64{0, 9}, 1},
		{"only a report of a queue", [2][]string{{waiting(3)}, {running(3), waiting(0)}}, [2]int64{3, 3}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newEngineCluster(t, 2, nil)
			for range 2 { // what exceeds the counts in one sample only may be on its way
				w.now += time.Second
				w.report(0, c.inflight[0], c.pages[0]...)
				w.report(1, c.inflight[1], c.pages[1]...)
				w.update()
			}
			if got := w.choice("", c.inflight[:]...); got != c.want {
				p, _ := w.plan("")
				t.Errorf("chose %d, want %d of %+v", got, c.want, p.Candidates)
			}
		})
	}
}

// An endpoint without a sample gets the median costs, which a single overloaded engine does not change.
func TestEndpointWithoutSample(t *testing.T) {
	w := newEngineCluster(t, 4, nil)
	for range 2 {
		w.now += time.Second
		for i, use := range []float64{0, 0.4, 0.8} {
			w.report(i, 0, running(0), waiting(0), kvUse(use))
		}
		w.update()
	}
	if p, _ := w.plan(""); p.Candidates[3].Base != p.Candidates[1].Base {
		t.Errorf("costs %v, want %v", p.Candidates[3].Base, p.Candidates[1].Base)
	}
	for range 2 {
		w.now += time.Second
		for i, external := range []int{70, 0, 3} {
			w.report(i, 0, running(external), waiting(0))
		}
		w.update()
	}
	w.now += time.Second
	if p, _ := w.plan(""); p.Candidates[3].Base != 3 {
		t.Errorf("costs %v beside ones with 70, 0 and 3 requests of others, want 3", p.Candidates[3].Base)
	}
}

// TestNoHerd sends requests between two scrapes, while one engine has just been reported idle and the others busy.
func TestNoHerd(t *testing.T) {
	w := newEngineCluster(t, 4, nil)
	loads := []int64{0, 8, 8, 8}
	for range 2 {
		w.now += time.Second
		for i, n := range loads {
			w.report(i, n, running(int(n)), waiting(0))
		}
		w.update()
	}
	picks := make([]int, 4)
	for range 40 {
		i := w.choice("", loads...)
		loads[i]++
		picks[i]++
	}
	if picks[0] != 16 || loads[0] != 16 || loads[1] != 16 {
		t.Errorf("picked %v, which leaves %v: want 16 at each", picks, loads)
	}
}

// prefix_cache takes queues into account, too, and the first request does.
func TestPrefixCacheUsesMetrics(t *testing.T) {
	for _, before := range []int64{0, 100} { // tokens of a request before it, 0 for none
		testQueueCounts(t, before)
	}
}

func testQueueCounts(t *testing.T, before int64) {
	w := newEngineCluster(t, 2, nil)
	w.build("prefix_cache")
	if _, reason := w.plan(""); reason != lb.ReasonChosen {
		t.Fatalf("without metrics: %v", reason)
	}
	w.engines.AddRequest("", w.addr(0), before)
	for range 2 {
		w.now += time.Second
		w.report(0, 4, running(4), waiting(6))
		w.report(1, 4, running(4), waiting(0))
		w.update()
	}
	if got := w.choice("", 4, 5); got != 1 {
		t.Errorf("chose %d, where requests wait, after one of %d tokens", got, before)
	}
}
