package policy_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/engines"
)

// drawnEngine is what one engine reports, and what is counted there.
type drawnEngine struct {
	running, waiting int
	kvUse            float64
	inflight         int64
	lora             bool
}

func drawEngine(rt *rapid.T) drawnEngine {
	return drawnEngine{
		running: rapid.IntRange(0, 60).Draw(rt, "running"), waiting: rapid.IntRange(0, 20).Draw(rt, "waiting"),
		kvUse:    float64(rapid.IntRange(0, 100).Draw(rt, "KV use")) / 100,
		inflight: int64(rapid.IntRange(0, 60).Draw(rt, "in flight")), lora: rapid.Bool().Draw(rt, "LoRA"),
	}
}

func (e drawnEngine) lines() []string {
	lines := []string{running(e.running), waiting(e.waiting), kvUse(e.kvUse)}
	if e.lora {
		lines = append(lines, adapters(2, "a,b"))
	}
	return lines
}

// reportTwice reports each engine in two scrapes, so that what exceeds the counts is known not to be on its way.
func (w *engineCluster) reportTwice(engines []drawnEngine) {
	for range 2 {
		w.now += time.Second
		for i, e := range engines {
			w.report(i, e.inflight, e.lines()...)
		}
		w.update()
	}
}

// costAt returns the cost of a request at each candidate with the loads that were counted, by address.
func (w *engineCluster) costAt(engines []drawnEngine, model string) map[string]float64 {
	p, reason := w.plan(model)
	if reason != lb.ReasonChosen {
		return nil
	}
	costs := map[string]float64{}
	for _, c := range p.Candidates {
		i := slices.IndexFunc(w.view.Endpoints, func(e lb.Endpoint) bool { return e.Addr == c.Addr })
		load := float64(engines[i].inflight + 1)
		costs[c.Addr] = c.Base + (c.Slope*load+c.OverSlope*max(0, load-c.Capacity))/c.Weight
	}
	return costs
}

// Whatever engines report, costs are finite, weights are above 0, and every endpoint that is awake is a candidate.
func TestCostsAreFinite(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		drawn := rapid.SliceOfN(rapid.Custom(drawEngine), 1, 6).Draw(rt, "engines")
		w := newEngineCluster(t, len(drawn), func(c *engines.Config) {
			c.Weights = engines.Weights{
				Running: rapid.Float64Range(0, 1000).Draw(rt, "running"),
				Queue:   rapid.Float64Range(0, 1000).Draw(rt, "queue"),
				KVCache: rapid.Float64Range(0, 1000).Draw(rt, "KV cache"),
				LoRA:    rapid.Float64Range(0, 1000).Draw(rt, "LoRA"),
			}
		})
		w.reportTwice(drawn)
		p, reason := w.plan(rapid.SampledFrom([]string{"", "a", "c"}).Draw(rt, "model"))
		if reason != lb.ReasonChosen || len(p.Candidates) != len(drawn) {
			rt.Fatalf("%d candidates: %v", len(p.Candidates), reason)
		}
		for _, c := range p.Candidates {
			if !(c.Weight > 0) || math.IsInf(c.Weight, 0) || !(math.Abs(c.Base) < 1e12) || !(c.Slope >= 0) ||
				!(c.OverSlope >= 0) || math.IsNaN(c.Capacity) {
				rt.Fatalf("%+v", c)
			}
		}
	})
}

// An engine's place in the list has no effect on what a request costs there.
func TestCostsDoNotDependOnTheOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		engines := rapid.SliceOfN(rapid.Custom(drawEngine), 1, 6).Draw(rt, "engines")
		w, other := newEngineCluster(t, len(engines), nil), newEngineCluster(t, len(engines), nil)
		other.view.Endpoints = rapid.Permutation(w.view.Endpoints).Draw(rt, "order")
		w.reportTwice(engines)
		other.reportTwice(engines)
		byAddr := make([]drawnEngine, len(engines))
		for i, e := range other.view.Endpoints {
			k := slices.IndexFunc(w.view.Endpoints, func(f lb.Endpoint) bool { return f.Addr == e.Addr })
			byAddr[i] = engines[k]
		}
		costs, again := w.costAt(engines, "a"), other.costAt(byAddr, "a")
		for addr, cost := range costs {
			if math.Abs(again[addr]-cost) > 1e-9*max(1, cost) {
				rt.Fatalf("%v: cost %v, in another order %v", addr, cost, again[addr])
			}
		}
	})
}

// More requests that others have placed on an engine, more of them waiting, or a fuller cache never make it cheaper
// than before, relative to an engine that reports what it did.
func TestBusierIsNeverCheaper(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		still := drawEngine(rt)
		quiet := drawEngine(rt)
		busy, dearer := quiet, false
		switch rapid.SampledFrom([]string{"running", "waiting", "KV use"}).Draw(rt, "more") {
		case "running":
			busy.running += rapid.IntRange(1, 50).Draw(rt, "by")
			quiet.waiting, busy.waiting, quiet.kvUse, busy.kvUse = 0, 0, 0, 0 // which would show a larger batch
			dearer = busy.running > int(busy.inflight) && busy.running > quiet.running
		case "waiting":
			busy.waiting += rapid.IntRange(1, 50).Draw(rt, "by")
			quiet.running, busy.running = max(1, quiet.running), max(1, quiet.running)
		case "KV use":
			busy.kvUse = min(1, busy.kvUse+0.1)
		}
		difference := func(e drawnEngine) float64 {
			w := newEngineCluster(t, 2, nil)
			engines := []drawnEngine{e, still}
			w.reportTwice(engines)
			costs := w.costAt(engines, "")
			return costs[w.addr(0)] - costs[w.addr(1)]
		}
		if before, after := difference(quiet), difference(busy); after < before-1e-6*max(1, math.Abs(before)) {
			rt.Fatalf("%+v costs %v more than %+v, and %+v costs %v more", quiet, before, still, busy, after)
		} else if dearer && after <= before {
			rt.Fatalf("%+v costs %v more than %+v, and %+v does as well", quiet, before, still, busy)
		}
	})
}

// A sample has no effect once it is older than the limit: the endpoint counts as one that never reported.
func TestStaleSamplesHaveNoEffect(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		engines := rapid.SliceOfN(rapid.Custom(drawEngine), 2, 5).Draw(rt, "engines")
		for i := range engines {
			engines[i].lora = false // known adapters outlive the sample that listed them
		}
		w, never := newEngineCluster(t, len(engines), nil), newEngineCluster(t, len(engines), nil)
		w.reportTwice(engines)
		w.now += w.cfg.StaleAfter + time.Millisecond
		never.now = w.now
		stale := rapid.IntRange(0, len(engines)-1).Draw(rt, "stale")
		for _, c := range []*engineCluster{w, never} {
			for range 2 {
				c.now += time.Second
				for i, e := range engines {
					if i != stale {
						c.report(i, e.inflight, e.lines()...)
					}
				}
				c.update()
			}
		}
		costs, want := w.costAt(engines, ""), never.costAt(engines, "")
		if math.Abs(costs[w.addr(stale)]-want[w.addr(stale)]) > 1e-6*max(1, math.Abs(want[w.addr(stale)])) {
			rt.Fatalf("with a stale sample the cost is %v, without any %v: %v and %v", costs[w.addr(stale)],
				want[w.addr(stale)], costs, want)
		}
	})
}

// A sleeping engine is no candidate while any other is awake; if all sleep, all are.
func TestSleepingEngines(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		asleep := rapid.SliceOfN(rapid.Bool(), 1, 6).Draw(rt, "asleep")
		w := newEngineCluster(t, len(asleep), nil)
		var want []string
		for i, sleeps := range asleep {
			w.report(i, 0, running(0), waiting(0),
				fmt.Sprintf(`vllm:engine_sleep_state{sleep_state="awake"} %d`, map[bool]int{true: 0, false: 1}[sleeps]))
			if !sleeps || !slices.Contains(asleep, false) {
				want = append(want, w.addr(i))
			}
		}
		w.update()
		p, _ := w.plan("")
		var got []string
		for _, c := range p.Candidates {
			got = append(got, c.Addr)
		}
		if !slices.Equal(got, want) {
			rt.Fatalf("asleep %v: candidates %v, want %v", asleep, got, want)
		}
	})
}

// How many samples are fresh decides whether there is a plan, and it is what is counted.
func TestFreshSamplesAreCounted(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(rt, "endpoints")
		w := newEngineCluster(t, n, nil)
		fresh := 0
		for i := range n {
			age := time.Duration(rapid.IntRange(0, 6000).Draw(rt, "age")) * time.Millisecond
			if rapid.Bool().Draw(rt, "reports") {
				w.report(i, 0, running(1), waiting(0))
				s := w.samples[w.addr(i)]
				s.At, s.ScrapedAt, s.FreshAt = w.now-age, w.now-age, w.now-age
				w.samples[w.addr(i)] = s
				if age <= w.cfg.StaleAfter {
					fresh++
				}
			}
		}
		w.update()
		if got := w.engines.CountFresh(w.now, w.cfg.StaleAfter); got != fresh {
			rt.Fatalf("%d samples are fresh, counted %d", fresh, got)
		}
		want := lb.ReasonChosen
		if fresh == 0 {
			want = lb.ReasonNoMetrics
		}
		if _, reason := w.plan(""); reason != want {
			rt.Fatalf("with %d fresh samples: %v", fresh, reason)
		}
	})
}
