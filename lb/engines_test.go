package lb_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
)

func TestNoMetrics(t *testing.T) {
	w := newEngineCluster(t, 2, nil)
	if _, reason := w.plan(""); reason != lb.ReasonNoMetrics {
		t.Errorf("without any sample: %v", reason)
	}
	w.report(0, 0, running(0), waiting(0))
	w.update()
	if _, reason := w.plan(""); reason != lb.ReasonChosen {
		t.Errorf("with one sample: %v", reason)
	}
	if fresh := w.engines.CountFresh(w.now, w.cfg.StaleAfter); fresh != 1 {
		t.Errorf("%d fresh, want 1", fresh)
	}
	w.now += w.cfg.StaleAfter + time.Millisecond
	if _, reason := w.plan(""); reason != lb.ReasonNoMetrics {
		t.Errorf("with a stale sample: %v", reason)
	}
}

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

// A request that has just been sent is not in the engine's numbers yet, and one that has just ended may still be.
func TestExternalNeedsTwoSamples(t *testing.T) {
	w := newEngineCluster(t, 2, nil)
	w.report(0, 2, running(8), waiting(0))
	w.report(1, 2, running(2), waiting(0))
	w.update()
	w.now += time.Second
	w.report(0, 2, running(2), waiting(0))
	w.report(1, 2, running(2), waiting(0))
	w.update()
	if p, _ := w.plan(""); p.Candidates[0].Base != p.Candidates[1].Base {
		t.Errorf("an excess in one sample counts: %+v", p.Candidates)
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

// decoded returns the lines of an engine that has generated that many tokens, at the given speed per request.
func decoded(tokens, speed float64) []string {
	return []string{
		fmt.Sprintf("vllm:inter_token_latency_seconds_count %g", tokens),
		fmt.Sprintf("vllm:inter_token_latency_seconds_sum %g", tokens/speed),
	}
}

// weights returns the weight of each endpoint after a minute in which the engines generated at these speeds.
func (w *engineCluster) weights(speeds ...float64) []float64 {
	w.t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	tokens := make([]float64, len(speeds))
	for range 60 {
		w.now += time.Second
		for i, speed := range speeds {
			tokens[i] += math.Floor(30 * rng.Float64())
			w.report(i, 3, append(decoded(tokens[i], speed), running(3), waiting(0))...)
		}
		w.update()
	}
	p, _ := w.plan("")
	var out []float64
	for _, c := range p.Candidates {
		out = append(out, c.Weight)
	}
	return out
}

// Weights are learned from the speed per request, whatever the load is, unless they are configured.
func TestLearnsSpeed(t *testing.T) {
	w := newEngineCluster(t, 3, nil)
	if got := w.weights(80, 45, 30); math.Abs(got[0]/got[2]-80.0/30) > 0.1 || got[1] != 1 {
		t.Errorf("engines of 80, 45 and 30 tokens a second weigh %v, want 1.8, 1 and 0.7", got)
	}
	w = newEngineCluster(t, 3, nil)
	if got := w.weights(45, 40, 36); got[0] != 1 || got[1] != 1 || got[2] != 1 {
		t.Errorf("engines that hardly differ weigh %v", got)
	}
	w = newEngineCluster(t, 3, nil)
	w.clusterConfig.Weights = map[string]float64{w.addr(0): 1}
	w.build("endpoint_metrics")
	if got := w.weights(80, 40, 30); got[0] != 1 || got[1] != 1 || got[2] != 1 {
		t.Errorf("weights are configured, and still learned: %v", got)
	}
	w = newEngineCluster(t, 3, func(c *lb.EngineConfig) { c.Learn = false })
	if got := w.weights(80, 40, 30); got[0] != 1 || got[1] != 1 || got[2] != 1 {
		t.Errorf("learning is off: %v", got)
	}
	w = newEngineCluster(t, 3, nil)
	if got := w.weights(8000, 40, 40); got[0] != 8 || got[1] != 1 || got[2] != 1 {
		t.Errorf("a misreporting engine makes the weights %v", got)
	}
	w = newEngineCluster(t, 3, nil)
	if got := w.weights(1e308, 1e7, 40); got[0] != 1 || got[1] != 1 || got[2] != 1 {
		t.Errorf("engines with impossible values make the weights %v", got)
	}
}

// A reset counter has no effect.
func TestLearnsNothingFromARestart(t *testing.T) {
	w := newEngineCluster(t, 2, nil)
	for i := range 40 {
		w.now += time.Second
		tokens := 100 * float64(i)
		w.report(1, 2, append(decoded(tokens, 50), running(2), waiting(0))...)
		if i >= 20 {
			tokens = 100 * float64(i-20)
		}
		w.report(0, 2, append(decoded(tokens, 50), running(2), waiting(0))...)
		w.update()
	}
	p, _ := w.plan("")
	if p.Candidates[0].Weight != 1 || p.Candidates[1].Weight != 1 {
		t.Errorf("after a restart the weights are %+v", p.Candidates)
	}
}

func TestAdapters(t *testing.T) {
	w := newEngineCluster(t, 3, nil)
	for range 2 {
		w.now += time.Second
		w.report(0, 4, running(4), waiting(0), adapters(2, "a,b"))
		w.report(1, 4, running(4), waiting(0), adapters(2, "c"))
		w.report(2, 4, running(4), waiting(0), adapters(2, "c,d"))
		w.update()
	}
	if !w.engines.HasAdapters() {
		t.Fatal("adapters are known")
	}
	for _, c := range []struct {
		model string
		loads []int64
		want  int
	}{
		{"a", []int64{6, 4, 4}, 0}, // where it is
		{"a", []int64{40, 4, 4}, 1},
		{"d", []int64{4, 4, 6}, 2},
		{"base", []int64{4, 3, 4}, 1}, // not an adapter
		{"", []int64{4, 4, 3}, 2},
	} {
		if got := w.choice(c.model, c.loads...); got != c.want {
			t.Errorf("%q with %v: chose %d, want %d", c.model, c.loads, got, c.want)
		}
	}
	// A placed request counts before the engine lists its adapter, and while it waits.
	id := w.engines.AddRequest("b", w.addr(1), 10)
	again := w.engines.AddRequest("b", w.addr(1), 10)
	if got := w.choice("b", 9, 5, 4); got != 1 {
		t.Errorf("chose %d after the adapter was sent to 1", got)
	}
	if got := w.choice("a", 30, 5, 4); got != 2 {
		t.Errorf("chose %d, want the one of two full ones that has less to do", got)
	}
	w.engines.RemoveRequest(id, w.addr(1))
	if got := w.choice("b", 9, 5, 4); got != 1 {
		t.Errorf("chose %d while a second request is there", got)
	}
	w.engines.RemoveRequest(again, w.addr(1))
	w.engines.RemoveRequest(again, w.addr(1))
	if got := w.choice("b", 6, 5, 4); got != 0 {
		t.Errorf("chose %d after both requests have left", got)
	}
	if id := w.engines.AddRequest("base", w.addr(1), 10); id != 0 {
		t.Error("a model that is not an adapter counts as one")
	}
}

// No reported value attracts all requests: negative values count as 0, high ones as at most eight times the median.
// A counter counts by its growth: the engine with the longest uptime is not the busiest.
// As long as nothing changes the list stays at the same address, by which stores recognize it.
func TestSameList(t *testing.T) {
	w := newEngineCluster(t, 3, nil)
	for i := range 3 {
		w.report(i, 1, running(1), waiting(0), adapters(2, "a"))
	}
	w.update()
	first, _ := w.plan("")
	adapter, _ := w.plan("a")
	w.now += time.Second
	again, _ := w.plan("")
	if &first.Candidates[0] != &again.Candidates[0] {
		t.Error("time alone makes another list")
	}
	w.update()
	same, _ := w.plan("a")
	if &adapter.Candidates[0] != &same.Candidates[0] {
		t.Error("the same samples make another list")
	}
}

// prefix_cache takes queues into account, too.
func TestPrefixCacheUsesMetrics(t *testing.T) {
	w := newEngineCluster(t, 2, nil)
	w.build("prefix_cache")
	if _, reason := w.plan(""); reason != lb.ReasonChosen {
		t.Fatalf("without metrics: %v", reason)
	}
	w.engines.AddRequest("", w.addr(0), 100)
	for range 2 {
		w.now += time.Second
		w.report(0, 4, running(4), waiting(6))
		w.report(1, 4, running(4), waiting(0))
		w.update()
	}
	if got := w.choice("", 4, 5); got != 1 {
		t.Errorf("chose %d, where requests wait", got)
	}
}
