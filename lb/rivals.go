//go:build benchpolicies

package lb

import (
	"math"
	"time"

	"github.com/warmgate/warmgate/lb/setting"
	"github.com/warmgate/warmgate/metrics"
)

// This file holds what endpoint_metrics is compared with in benchmarks. No artifact that is shipped has it.

func init() {
	for name, build := range map[string]func(Config) (Policy, error){
		"endpoint_metrics_uncorrected": newUncorrected,
		"filter_tree_2024":             newFilterTree,
	} {
		register(&Descriptor{
			Name: name, Rank: 100, Meaning: setting.Words{EN: "for benchmarks", ZH: "用于基准测试"},
			Needs: byMetrics, Settings: newEngineConfig, Keys: targetKeys, Check: checkTarget, New: build,
		})
	}
}

// uncorrected goes by the same metrics, as they were when the engines told them: what was reserved and released since does not
// count. Of equals any is chosen.
type uncorrected struct{ endpointMetrics }

func newUncorrected(c Config) (Policy, error) {
	p, err := newEndpointMetrics(c)
	return &uncorrected{*p.(*endpointMetrics)}, err
}

// Plan implements Policy.
func (p *uncorrected) Plan(now time.Duration, r *Request, v *View) (Plan, Reason) {
	plan, reason := p.endpointMetrics.Plan(now, r, v)
	cs := make([]Candidate, 0, len(plan.Candidates))
	for _, c := range plan.Candidates {
		if e := p.engines.known[c.Addr]; e.fresh(now, p.cfg.StaleAfter) {
			load := e.value(metrics.Running) + queue(&e.Load) + 1
			c.Base = c.cost(load, 0) - p.cfg.Weights.Running*e.foreign/c.Weight // its load is in what was scraped
		}
		c.Slope, c.OverSlope = 0, 0
		cs = append(cs, c)
	}
	plan.Candidates = cs
	return plan, reason
}

// filterTree is how the Inference Gateway chose in 2024, by its description: of the servers with fewer than 50 requests in the queue
// those that have the adapter loaded, or else room for it; of these those with short queues, up to the least and an equal part of
// the span; of these those with little of the KV cache in use, likewise; of these any. If all queues are long, the least queue
// counts first and the adapter last.
type filterTree struct{ endpointMetrics }

func newFilterTree(c Config) (Policy, error) {
	p, err := newEndpointMetrics(c)
	return &filterTree{*p.(*endpointMetrics)}, err
}

// Plan implements Policy.
func (p *filterTree) Plan(now time.Duration, r *Request, v *View) (Plan, Reason) {
	const shortQueue = 50
	plan, reason := p.endpointMetrics.Plan(now, r, v)
	if reason != ReasonChosen {
		return plan, reason
	}
	var all []Candidate
	for _, c := range plan.Candidates {
		if p.engines.known[c.Addr].fresh(now, p.cfg.StaleAfter) {
			all = append(all, Candidate{Addr: c.Addr, Weight: 1, Cap: c.Cap})
		}
	}
	adapter := p.engines.adapter(r.Model)
	low := p.keep(all, func(e *engine) bool { return queue(&e.Load) < shortQueue })
	if len(low) > 0 {
		plan.Candidates = p.leastKV(p.leastQueue(p.affinity(low, adapter)))
	} else {
		plan.Candidates = p.affinity(p.leastKV(p.leastQueue(all)), adapter)
	}
	return plan, reason
}

func (p *filterTree) keep(cs []Candidate, ok func(e *engine) bool) (out []Candidate) {
	for _, c := range cs {
		if ok(p.engines.known[c.Addr]) {
			out = append(out, c)
		}
	}
	return out
}

// affinity keeps those with the adapter in the batch, else those with room for it, else all.
func (p *filterTree) affinity(cs []Candidate, adapter uint64) []Candidate {
	if adapter == 0 {
		return cs
	}
	if has := p.keep(cs, func(e *engine) bool { return e.Loaded.Has(adapter) }); len(has) > 0 {
		return has
	}
	if room := p.keep(cs, func(e *engine) bool {
		most, told := e.Value(metrics.MaxAdapters)
		return !told || float64(e.Loaded.N) < most
	}); len(room) > 0 {
		return room
	}
	return cs
}

func (p *filterTree) leastQueue(cs []Candidate) []Candidate {
	return p.least(cs, func(e *engine) float64 { return queue(&e.Load) })
}

func (p *filterTree) leastKV(cs []Candidate) []Candidate {
	return p.least(cs, func(e *engine) float64 { return e.value(metrics.KVUse) })
}

// least keeps the first of as many equal parts of the span of values as there are candidates.
func (p *filterTree) least(cs []Candidate, value func(e *engine) float64) []Candidate {
	low, high := math.Inf(1), math.Inf(-1)
	for _, c := range cs {
		v := value(p.engines.known[c.Addr])
		low, high = min(low, v), max(high, v)
	}
	most := low + (high-low)/float64(max(1, len(cs)))
	return p.keep(cs, func(e *engine) bool { return value(e) <= most })
}
