package engines

import (
	"cmp"
	"math"
	"time"

	"github.com/warmgate/warmgate/internal/order"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/metrics"
)

// costModel is what the costs of one list have in common.
type costModel struct {
	cluster     *Samples
	cfg         *Config
	unit        lb.Unit
	requestLoad float64 // load of a typical request, in the unit
	medianSpeed float64 // in tokens per second and request; 0 if weights are not learned
	adapter     uint64  // of the request, 0 for none
}

// computeCosts returns the candidates with the costs of their engine samples, without sleeping engines unless all
// sleep, and the number of fresh samples that the costs are based on.
func (g *Samples) computeCosts(now time.Duration, cs []lb.Candidate, key *costKey) ([]lb.Candidate, int) {
	cfg := key.config
	samples, fresh, awake := g.freshSamples(now, cs, cfg.StaleAfter)
	if fresh == 0 {
		return cs, 0
	}
	m := costModel{cluster: g, cfg: cfg, adapter: key.adapter, requestLoad: 1, unit: key.unit}
	if m.unit == lb.Tokens {
		m.requestLoad = lb.RoundDigits(max(1, cmp.Or(key.load, g.meanTokens)), 3)
	}
	if cfg.Learn && !key.weightsConfigured {
		m.medianSpeed = g.medianSpeed(cs)
	}
	out := make([]lb.Candidate, 0, len(cs))
	kept := samples[:0]
	for i, e := range samples {
		if e != nil && e.asleep() && awake > 0 {
			continue
		}
		out, kept = append(out, cs[i]), append(kept, e)
	}
	if cfg.Order != ByLoad {
		fresh = m.addTargetCosts(out, kept)
	} else {
		m.addLoadCosts(out, kept)
	}
	for i := range out { // a small change should give the same list, which stores know already
		c := &out[i]
		c.Base, c.Capacity = lb.RoundDigits(c.Base, 8), lb.RoundDigits(c.Capacity, 8)
		c.Weight = lb.RoundDigits(c.Weight, 8)
	}
	return out, fresh
}

// addLoadCosts sets the terms of the cost so that it is the expected delay of a request: see [lb.Choose]. It adds to
// Base
//
//	requestLoad * (Running * external / Weight + KVCache * use + LoRA * lora)
//
// Slope is Running, and OverSlope is requestLoad * Queue for each request above the engine's capacity: an engine runs
// so many requests at once, however many tokens they have. The load is counted by the store at the time of the
// reservation, so that it includes what has been reserved and released since the sample. For a candidate without a
// sample the medians are used.
func (m *costModel) addLoadCosts(cs []lb.Candidate, samples []*engine) {
	meanUse, medianCapacity := meanKVUse(samples), m.medianCapacity(samples)
	var external, other []float64 // external requests and the costs beside load, of all samples
	for i, e := range samples {
		c := &cs[i]
		c.Slope = m.cfg.Weights.Running
		c.Base = m.loadCost(c.Base, medianCapacity)
		if m.medianSpeed > 0 {
			c.Weight *= relativeSpeed(m.cluster.engines[c.Addr].speed(), m.medianSpeed)
		}
		if e == nil {
			continue
		}
		if capacity, known := m.capacity(e); known {
			c.Capacity, c.OverSlope = capacity, m.requestLoad*m.cfg.Weights.Queue
		}
		use, known := e.Value(metrics.KVUse)
		if !known {
			use = meanUse
		}
		cost := m.requestLoad * (m.cfg.Weights.KVCache*use + m.cfg.Weights.LoRA*m.loraCost(e, c.Addr))
		external, other = append(external, e.external), append(other, cost)
		c.Base += m.requestLoad*m.cfg.Weights.Running*e.external/c.Weight + cost
	}
	medianExternal, medianOther := median(external), median(other)
	for i, e := range samples {
		if c := &cs[i]; e == nil {
			c.Base += m.requestLoad*m.cfg.Weights.Running*medianExternal/c.Weight + medianOther
		}
	}
}

// loadCost returns the cost of a load at an endpoint of weight 1 with a capacity in requests. A load below 0 is a
// preference.
func (m *costModel) loadCost(load, capacity float64) float64 {
	cost := cmp.Or(m.cfg.Weights.Running, m.cfg.Weights.Queue) * load
	if full := m.requestLoad * capacity; load > full {
		cost += m.cfg.Weights.Queue * (load - full)
	}
	return cost
}

// meanKVUse returns the mean use of the KV caches of the engines that report it, 0 if none does.
func meanKVUse(samples []*engine) float64 {
	sum, n := 0.0, 0.0
	for _, e := range samples {
		if e == nil {
			continue
		}
		if use, known := e.Value(metrics.KVUse); known {
			sum, n = sum+use, n+1
		}
	}
	return sum / max(1, n)
}

// capacity returns how many counted requests the engine serves without queueing.
func (m *costModel) capacity(e *engine) (requests float64, known bool) {
	requests, known = e.requestCapacity()
	if m.unit == lb.Tokens {
		tokens, ok := e.tokenCapacity(m.requestLoad)
		if fit := tokens / m.requestLoad; ok && (!known || fit < requests) {
			return fit, true
		}
	}
	return requests, known
}

// medianCapacity returns the median of the known capacities, infinity if there are none.
func (m *costModel) medianCapacity(samples []*engine) float64 {
	var known []float64
	for _, e := range samples {
		if e == nil {
			continue
		}
		if capacity, ok := m.capacity(e); ok {
			known = append(known, capacity)
		}
	}
	if len(known) == 0 {
		return math.Inf(1)
	}
	return median(known)
}

// loraCost returns the cost of the request's adapter, from 0 if it is in the batch to 1 if it must replace another one.
// Engines list adapters whose requests run, with a delay; so what this VM has placed there counts at once.
func (m *costModel) loraCost(e *engine, addr string) float64 {
	const free, queued = 0.2, 0.4 // costs if there is a free slot, and if it waits for one already
	placed := m.cluster.adapterRequests[addr]
	if m.adapter == 0 || e.Loaded.Has(m.adapter) || placed[m.adapter] > 0 {
		return 0
	}
	loaded := e.Loaded.N
	for id := range placed {
		if !e.Loaded.Has(id) {
			loaded++
		}
	}
	slots, ok := e.Value(metrics.MaxAdapters)
	switch {
	case !ok || float64(loaded) < slots:
		return free
	case e.Waiting.Has(m.adapter): // never with vLLM, whose two lists are always equal
		return queued
	}
	return 1
}

// medianSpeed returns the median of the known speeds, 0 if there are none. One wrong value does not move it.
func (g *Samples) medianSpeed(cs []lb.Candidate) float64 {
	var speeds []float64
	for i := range cs {
		if s := g.engines[cs[i].Addr].speed(); s > 0 {
			speeds = append(speeds, s)
		}
	}
	return median(speeds)
}

// median returns the lower median of xs, which it sorts; 0 for none.
func median(xs []float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	order.Up(xs)
	return xs[(len(xs)-1)/2]
}
