package lb

import (
	"cmp"
	"time"

	"github.com/warmgate/warmgate/internal/order"
	"github.com/warmgate/warmgate/metrics"
)

// costModel is what the costs of one list have in common.
type costModel struct {
	cluster     *Engines
	cfg         *EngineConfig
	unit        Unit
	requestLoad float64 // load of a typical request, in the unit
	medianSpeed float64 // in tokens per second and request; 0 if weights are not learned
	adapter     uint64  // of the request, 0 for none
}

// computeCosts returns the candidates with the costs of their engine samples, without sleeping engines unless all
// sleep, and the number of fresh samples that the costs are based on.
func (g *Engines) computeCosts(now time.Duration, cs []Candidate, key *costKey) ([]Candidate, int) {
	cfg := key.config
	samples, fresh, awake := g.freshSamples(now, cs, cfg.StaleAfter)
	if fresh == 0 {
		return cs, 0
	}
	m := costModel{cluster: g, cfg: cfg, adapter: key.adapter, requestLoad: 1, unit: key.unit}
	if m.unit == Tokens {
		m.requestLoad = RoundDigits(max(1, g.meanTokens), 3)
	}
	if cfg.Learn && !key.weightsConfigured {
		m.medianSpeed = g.medianSpeed(cs)
	}
	out := make([]Candidate, 0, len(cs))
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
		c.Base, c.Capacity, c.Weight = RoundDigits(c.Base, 8), RoundDigits(c.Capacity, 8), RoundDigits(c.Weight, 8)
	}
	return out, fresh
}

// addLoadCosts sets the terms of the cost so that it is the expected delay of a request: see [Choose]. It adds to Base
//
//	requestLoad * (Running * external / Weight + KVCache * use + LoRA * lora)
//
// Slope is Running, and OverSlope is Queue, above the engine's capacity. The load is counted by the store at the time
// of the reservation, so that it includes what has been reserved and released since the sample. For a candidate without
// a sample the medians are used.
func (m *costModel) addLoadCosts(cs []Candidate, samples []*engine) {
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
			c.Capacity, c.OverSlope = capacity, m.cfg.Weights.Queue
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

// loadCost returns the cost of a load at an endpoint of weight 1 with the given capacity. A load below 0 is a
// preference.
func (m *costModel) loadCost(load, capacity float64) float64 {
	cost := cmp.Or(m.cfg.Weights.Running, m.cfg.Weights.Queue) * load
	if load > capacity {
		cost += m.cfg.Weights.Queue * (load - capacity)
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

// learnMeanTokens learns from the load of a request in tokens, 0 where tokens are not counted.
func (g *Engines) learnMeanTokens(tokens int64) {
	const gain = 1.0 / 16 // weight of the newest request
	if tokens <= 0 {
		return
	}
	if g.meanTokens == 0 {
		g.meanTokens = float64(tokens)
	}
	g.meanTokens += (float64(tokens) - g.meanTokens) * gain
}

// median returns the lower median of xs, which it sorts; 0 for none.
func median(xs []float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	order.Up(xs)
	return xs[(len(xs)-1)/2]
}
