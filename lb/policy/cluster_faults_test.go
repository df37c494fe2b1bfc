package policy

import (
	"math"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"pgregory.net/rapid"
)

// A cluster that is left out of the comparison is chosen while all others are full: no request is refused while one
// has room.
func TestSparesAreChosenLast(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		mode := rapid.SampledFrom([]ClusterMode{LeastBusy, LeastTotalLatency, AdaptiveScore}).Draw(rt, "mode")
		n := rapid.IntRange(2, 6).Draw(rt, "clusters")
		limit := rapid.SampledFrom([]float64{0.17, 0.4, 1}).Draw(rt, "share")
		b := newClusterBench(rt, mode, n, func(cfg *ClusterMetricsConfig) { cfg.RateLimit = limit })
		b.setCap(3)
		b.plan()
		room := false
		for i := range n {
			for range rapid.IntRange(0, 9).Draw(rt, "requests") {
				b.shares.Count(b.now, clusterName(i))
			}
			b.loads[i].Requests = int64(rapid.IntRange(1, 3).Draw(rt, "in flight"))
			room = room || b.loads[i].Requests < 3
			if rapid.Bool().Draw(rt, "failed") {
				b.loads[i].Requests++
				b.end(i, lb.Failure, 0, time.Millisecond)
			}
		}
		p, loads := b.plan()
		at := lb.Choose(&p, loads, nil)
		if (at != lb.Full) != room {
			rt.Fatalf("chose %d of %v with %v in flight", at, p.Candidates, b.loads)
		}
		if at == lb.Full || p.Candidates[at].Base < spareCost/2 {
			return
		}
		for i, c := range p.Candidates {
			if c.Base < spareCost/2 && !c.IsFull(loads[i]) {
				rt.Fatalf("chose the spare %s, and %s had room", p.Candidates[at].Addr, c.Addr)
			}
		}
	})
}

// Whatever fails, and for however long, costs stay numbers, and a request is placed.
func TestFailuresCostNoMoreThanTheyMay(t *testing.T) {
	for _, mode := range allModes {
		for _, v := range []lb.Verdict{lb.Overload, lb.Retried, lb.TimedOut, lb.Failure} {
			b := newClusterBench(t, mode, 3, func(c *ClusterMetricsConfig) { c.CooldownMs = 1 })
			for n := range 100_000 {
				b.now += 10 * time.Millisecond
				b.loads[n%3].Requests++
				b.end(n%3, v, 0, time.Second)
			}
			for range 100 {
				p, loads := b.plan()
				at := lb.Choose(&p, loads, nil)
				if at == lb.Full {
					t.Fatalf("%v: refused after outcomes %d", mode, v)
				}
				for i := range p.Candidates {
					if cost := costOf(&p.Candidates[i], loads[i]); math.IsNaN(cost) || cost > maxLatency*1e3 {
						t.Fatalf("%v: after outcomes %d a cluster costs %v", mode, v, cost)
					}
				}
				b.now += time.Second
			}
		}
	}
}

// Failures teach no more than twice what the slowest answer has taken, by whatever is mixed with them, and none of what
// fails everywhere.
func TestFailuresTeachWhatAnswersTook(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		mode := rapid.SampledFrom(allModes).Draw(rt, "mode")
		b := newClusterBench(rt, mode, 4, func(c *ClusterMetricsConfig) {
			c.HistoryPart = rapid.Float64Range(0, 1).Draw(rt, "history")
			c.QueueSize = rapid.IntRange(1, 9).Draw(rt, "queue")
		})
		b.plan()
		slowest := 0.0
		for range rapid.IntRange(1, 300).Draw(rt, "outcomes") {
			v := rapid.SampledFrom([]lb.Verdict{
				lb.Success, lb.Failure, lb.Failure, lb.Overload, lb.TimedOut,
			}).Draw(rt, "verdict")
			took := time.Duration(rapid.IntRange(1, 5000).Draw(rt, "ms")) * time.Millisecond
			b.now += took
			slowest = max(slowest, ms(took))
			at := rapid.IntRange(0, 3).Draw(rt, "cluster")
			b.loads[at].Requests++
			b.end(at, v, took/2, took)
		}
		for i := range b.loads {
			l := b.policy.(*clusterMetrics).latencies.of(clusterName(i))
			if !(l.known.whole <= 2*slowest && l.known.first <= slowest && l.served.whole <= slowest) {
				rt.Fatalf("%+v is known, %v was the slowest", l, slowest)
			}
		}
	})
	b := newClusterBench(t, LeastTotalLatency, 3, nil)
	b.serve(200, 100*time.Millisecond, func(int) (lb.Verdict, time.Duration) {
		return lb.Success, 50 * time.Millisecond
	})
	p := b.policy.(*clusterMetrics)
	before := p.latencies.of("a").known
	p.latencies.observe(b.now, &lb.Outcome{Addr: "a", Verdict: lb.Failure, Whole: time.Minute}, &p.cfg, 0, b.view)
	if after := p.latencies.of("a").known; after != before {
		t.Errorf("a failure that is not the cluster's changes %+v to %+v", before, after)
	}
}

// A candidate whose cost is no number is chosen when there is no other.
func TestChooseWithoutNumbers(t *testing.T) {
	p := lb.Plan{List: lb.NewList([]lb.Candidate{
		{Base: math.NaN(), Slope: 1, Weight: 1}, {Base: 5, Slope: 1, Weight: 1}, {Slope: math.NaN(), Weight: 1},
	})}
	for random := range uint64(4) {
		p.Random = random
		if at := lb.Choose(&p, make([]lb.Load, 3), nil); at != 1 {
			t.Errorf("chose %d", at)
		}
	}
	if at := lb.Preferred(&p, make([]lb.Load, 3), nil); at != 1 {
		t.Errorf("%d is preferred", at)
	}
	p.Candidates = p.Candidates[2:]
	if at := lb.Choose(&p, make([]lb.Load, 1), nil); at != 0 {
		t.Errorf("of one %d was chosen", at)
	}
}

// What was placed before a failure does not end the cooldown, however well it ends; what was placed after it does.
func TestEarlierRequestsEndNoCooldown(t *testing.T) {
	b := newClusterBench(t, AdaptiveScore, 2, nil)
	b.plan()
	cooling := func() bool {
		had := 0
		for range 20 {
			if p, _ := b.plan(); len(p.Candidates) == 2 || p.Candidates[0].Addr == clusterName(0) {
				had++
			}
		}
		return had <= 2 // it is tried
	}
	b.loads[0].Requests = 51
	b.now += time.Minute
	b.end(0, lb.Failure, 0, time.Millisecond)
	for range 49 {
		b.now += 100 * time.Millisecond
		b.end(0, lb.Success, time.Second, time.Minute)
		if !cooling() {
			t.Fatal("a request of before the failure has ended the cooldown")
		}
	}
	b.end(0, lb.Success, time.Second, 2*time.Second)
	if cooling() {
		t.Error("a success of after the failure has not ended it")
	}
}

// A cluster that was removed from the configuration teaches nothing any more, and is forgotten.
func TestRemovedClustersAreForgotten(t *testing.T) {
	b := newClusterBench(t, LeastTotalLatency, 3, nil)
	b.serve(100, 100*time.Millisecond, func(i int) (lb.Verdict, time.Duration) {
		return lb.Success, time.Duration(100+60000*(i/2)) * time.Millisecond
	})
	b.view = &lb.View{Cluster: b.view.Cluster, Endpoints: b.view.Endpoints[:2], ListID: 1}
	b.plan()
	latencies := b.policy.(*clusterMetrics).latencies
	latencies.of("a").placedAt = 0 // what comes next replaces what was known
	b.loads[0].Requests++
	b.end(0, lb.Failure, 0, time.Millisecond)
	if whole := latencies.of("a").known.whole; whole > 250 {
		t.Errorf("a failure counts as %v ms, and the slowest cluster that is left takes 100", whole)
	}
	if len(latencies.by) != 3 {
		t.Errorf("%d clusters are known", len(latencies.by))
	}
	for range 2 {
		b.now += 20 * time.Minute
		b.plan()
	}
	b.now += lb.UnusedListTTL
	b.plan()
	if len(latencies.by) != 2 || latencies.by["c"] != nil {
		t.Errorf("%d clusters are known, c is one of them: %t", len(latencies.by), latencies.by["c"] != nil)
	}
}

// Each worker finds out by itself that a cluster has recovered: what others send there does not keep it from asking.
func TestEveryWorkerAsksAgain(t *testing.T) {
	for _, mode := range allModes[1:] {
		a, b := newClusterBench(t, mode, 2, nil), newClusterBench(t, mode, 2, nil)
		b.random = 99
		var shared []byte
		play := func(seconds int, slow time.Duration) (n [2]int) {
			for range seconds {
				for i, w := range [2]*clusterBench{a, b} {
					w.shares.Import(shared)
					n[i] += w.serve(25, 40*time.Millisecond, func(i int) (lb.Verdict, time.Duration) {
						return lb.Success, []time.Duration{100 * time.Millisecond, slow}[i]
					})[1]
					shared = w.shares.Export(w.now, shared)
					w.shares.ConfirmExport(shared)
				}
			}
			return n
		}
		play(30, 3*time.Second)
		play(9, 10*time.Millisecond)
		if n := play(5, 10*time.Millisecond); n[0] < 60 || n[1] < 60 {
			t.Errorf("%v: nine seconds after it has recovered the cluster gets %v of 125 of each worker", mode, n)
		}
	}
}
