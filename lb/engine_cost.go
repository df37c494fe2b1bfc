package lb

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/warmgate/warmgate/metrics"
)

// EngineConfig configures how engine samples are turned into costs.
type EngineConfig struct {
	Order      Order
	Target     string        // name of the metric for LowestTarget and HighestTarget
	StaleAfter time.Duration // age above which a sample is not used
	Learn      bool          // weights are learned unless they are configured
	Weights    EngineWeights
	RateLimit  float64 // the highest share of requests that one endpoint gets; from 1 on there is no limit
}

// Order is what endpoint_metrics prefers.
type Order uint8

// The orders.
const (
	ByLoad        Order = iota // the endpoint that is likely to serve the request first
	LowestTarget               // the lowest value of one metric
	HighestTarget              // the highest value of one metric
)

var orderNames = [...]string{ByLoad: "default", LowestTarget: "least", HighestTarget: "most"}

// String returns the order's name in the configuration.
func (o Order) String() string { return orderNames[o] }

// UnmarshalText sets the order to the one with the name.
func (o *Order) UnmarshalText(name []byte) error {
	i := slices.Index(orderNames[:], string(name))
	if i < 0 {
		return errors.New("lb: unknown order " + string(name))
	}
	*o = Order(i)
	return nil
}

// EngineWeights are costs, in requests in flight on an endpoint of weight 1.
type EngineWeights struct {
	Running float64 // of each request in flight
	Queue   float64 // of each request that waits, in addition to Running
	KVCache float64 // of a KV cache in full use
	LoRA    float64 // of loading an adapter in place of another
}

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
func (g *Engines) computeCosts(now time.Duration, cs []Candidate, key *engineKey) ([]Candidate, int) {
	samples, fresh, awake := g.freshSamples(now, cs, key.cfg.StaleAfter)
	if fresh == 0 {
		return cs, 0
	}
	m := costModel{cluster: g, cfg: key.cfg, adapter: key.adapter, requestLoad: 1, unit: key.unit}
	if key.unit == Tokens {
		m.requestLoad = roundDigits(max(1, g.meanTokens), 3)
	}
	if key.cfg.Learn && !key.weightsConfigured {
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
	if key.cfg.Order != ByLoad {
		fresh = m.addTargetCosts(out, kept)
	} else {
		m.addLoadCosts(out, kept)
	}
	for i := range out { // a small change should give the same list, which stores know already
		c := &out[i]
		c.Base, c.Capacity, c.Weight = roundDigits(c.Base, 8), roundDigits(c.Capacity, 8), roundDigits(c.Weight, 8)
	}
	return out, fresh
}

// freshSamples returns the sample of each candidate, nil if there is no fresh one; how many there are; and how many
// candidates are not known to sleep.
func (g *Engines) freshSamples(
	now time.Duration, cs []Candidate, age time.Duration,
) (samples []*engine, fresh, awake int) {
	for i := range cs {
		e := g.engines[cs[i].Addr]
		if !e.fresh(now, age) {
			e = nil
		} else {
			fresh++
		}
		if e == nil || !e.asleep() {
			awake++
		}
		samples = append(samples, e)
	}
	return samples, fresh, awake
}

// roundDigits truncates x to the given number of binary digits after the first.
func roundDigits(x float64, digits uint) float64 {
	return math.Float64frombits(math.Float64bits(x) &^ (1<<(52-digits) - 1))
}

// medianSpeed returns the median of the known speeds, 0 if there are none. One wrong value does not move it.
func (g *Engines) medianSpeed(cs []Candidate) float64 {
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
	slices.Sort(xs)
	return xs[(len(xs)-1)/2]
}

// addLoadCosts sets the expected delay of a request as the cost of each candidate:
//
//	(Running * (load + external) + Queue * waiting) / weight + KVCache * use + LoRA * lora
//
// load is counted by the store at the time of the reservation, so that it includes what has been reserved and released
// since the sample. waiting is the part of it above the engine's capacity. For a candidate without a sample the medians
// are used.
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

// capacity returns the counted load that the engine serves without queueing, in the unit.
func (m *costModel) capacity(e *engine) (capacity float64, known bool) {
	capacity, known = e.requestCapacity()
	capacity *= m.requestLoad
	if m.unit == Tokens {
		if fit, ok := e.tokenCapacity(m.requestLoad); ok && (!known || fit < capacity) {
			return fit, true
		}
	}
	return capacity, known
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
