//go:build benchpolicies

package lb

import (
	"math"
	"time"

	"github.com/warmgate/warmgate/lb/setting"
	"github.com/warmgate/warmgate/metrics"
)

// The policies that benchmarks compare endpoint_metrics with. No released artifact contains them.

func init() {
	for name, build := range map[string]func(Config) (Policy, error){
		"endpoint_metrics_uncorrected": newUncorrected,
		"filter_tree_2024":             newFilterTree,
	} {
		register(&Descriptor{
			Name: name, Rank: 100, Meaning: setting.Doc("for benchmarks", "用于基准测试"),
			Needs: byMetrics, Settings: newEngineConfig, Keys: targetKeys, Check: checkTarget, New: build,
		})
	}
}

// uncorrected uses the metrics of the latest engine samples as they are: what has been reserved and released since does
// not count. Ties are settled at random.
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
		if e := p.engines.engines[c.Addr]; e.fresh(now, p.cfg.StaleAfter) {
			load := e.orZero(metrics.Running) + queuedRequests(&e.Snapshot) + 1
			c.Base = c.cost(load, 0) - p.cfg.Weights.Running*e.external/c.Weight // its load is in the scraped numbers
		}
		c.Slope, c.OverSlope = 0, 0
		cs = append(cs, c)
	}
	plan.List = NewList(cs)
	return plan, reason
}

// filterTree is the decision tree of the Gateway API Inference Extension in 2024, by its description: of the servers
// with fewer than 50 queued requests it keeps those that have the adapter loaded, or else have a free slot for it; of
// these those with short queues, up to the lowest plus an equal part of the range; of these those with a low use of the
// KV cache, likewise; of these it takes any. If all queues are long, the queue comes first and the adapter last.
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
		if p.engines.engines[c.Addr].fresh(now, p.cfg.StaleAfter) {
			all = append(all, Candidate{Addr: c.Addr, Weight: 1, Cap: c.Cap, TokenCap: c.TokenCap})
		}
	}
	adapter := p.engines.adapterID(r.Model)
	low := p.keep(all, func(e *engine) bool { return queuedRequests(&e.Snapshot) < shortQueue })
	if len(low) > 0 {
		plan.List = NewList(p.lowKVUse(p.shortQueues(p.affinity(low, adapter))))
	} else {
		plan.List = NewList(p.affinity(p.lowKVUse(p.shortQueues(all)), adapter))
	}
	return plan, reason
}

// keep returns the candidates whose engine fulfills a condition.
func (p *filterTree) keep(cs []Candidate, ok func(e *engine) bool) (out []Candidate) {
	for _, c := range cs {
		if ok(p.engines.engines[c.Addr]) {
			out = append(out, c)
		}
	}
	return out
}

// affinity keeps the candidates with the adapter in the batch, else those with a free slot for it, else all.
func (p *filterTree) affinity(cs []Candidate, adapter uint64) []Candidate {
	if adapter == 0 {
		return cs
	}
	if has := p.keep(cs, func(e *engine) bool { return e.Loaded.Has(adapter) }); len(has) > 0 {
		return has
	}
	if free := p.keep(cs, func(e *engine) bool {
		slots, ok := e.Value(metrics.MaxAdapters)
		return !ok || float64(e.Loaded.N) < slots
	}); len(free) > 0 {
		return free
	}
	return cs
}

func (p *filterTree) shortQueues(cs []Candidate) []Candidate {
	return p.lowest(cs, func(e *engine) float64 { return queuedRequests(&e.Snapshot) })
}

func (p *filterTree) lowKVUse(cs []Candidate) []Candidate {
	return p.lowest(cs, func(e *engine) float64 { return e.orZero(metrics.KVUse) })
}

// lowest keeps the candidates in the lowest of as many equal parts of the range of values as there are candidates.
func (p *filterTree) lowest(cs []Candidate, value func(e *engine) float64) []Candidate {
	low, high := math.Inf(1), math.Inf(-1)
	for _, c := range cs {
		v := value(p.engines.engines[c.Addr])
		low, high = min(low, v), max(high, v)
	}
	highest := low + (high-low)/float64(max(1, len(cs)))
	return p.keep(cs, func(e *engine) bool { return value(e) <= highest })
}
