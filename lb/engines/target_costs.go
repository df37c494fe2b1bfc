package engines

import (
	"math"
	"slices"

	"github.com/warmgate/warmgate/lb"
)

// The costs of endpoint_metrics by one metric of the engines: `target_metric`, with a `metric_policy` of least or most.

// addTargetCosts sets the value of one metric as the cost of each candidate, or its growth per second if it is a
// counter, and returns how many engines report it. A request since the sample costs as much as there is of the metric
// per request in flight, since what a request adds to an arbitrary metric is unknown. How much of the metric remains
// after a request has ended is unknown too, so ended requests are not subtracted.
func (m *costModel) addTargetCosts(cs []lb.Candidate, samples []*engine) int {
	at := slices.Index(m.cluster.targets, m.cfg.Target)
	if at < 0 {
		return 0
	}
	values, n := m.targetValues(at, samples)
	if n == 0 {
		return 0
	}
	sum, all, inflight := 0.0, 0.0, 0.0
	for i, e := range samples {
		if v := values[i]; !math.IsNaN(v) {
			sum, all = sum+v, all+math.Abs(v)
			inflight += float64(e.Inflight.Requests)
		}
	}
	perRequest := all / max(inflight, float64(n))
	if perRequest == 0 {
		perRequest = 1
	}
	for i, e := range samples {
		v := values[i]
		if math.IsNaN(v) {
			v = sum / float64(n)
		}
		m.setTargetCost(&cs[i], e, v, perRequest)
	}
	return n
}

// setTargetCost sets the costs of a candidate for a value of the target.
func (m *costModel) setTargetCost(c *lb.Candidate, e *engine, value, perRequest float64) {
	const tieBreak = 1e-3 // equal values are ordered by load
	if m.cfg.Order == HighestTarget {
		value = -value
	}
	// An endpoint that fails or has just been added counts as if it had more.
	c.Base = value + perRequest*(c.Base/m.requestLoad+1/c.Weight-1+c.ZonePenalty)
	c.ZonePenalty = 0
	c.Slope, c.OverSlope, c.Capacity = tieBreak*perRequest/m.requestLoad, perRequest, 1
	if e != nil && e.Counted {
		c.Capacity += float64(e.Inflight.Requests)
	}
}

// targetValues returns the value of a target for each engine, NaN if there is none, and how many there are. Values that
// would attract all requests are bounded by the median: the best that an engine can be is idle, or eight times as good.
func (m *costModel) targetValues(at int, samples []*engine) (values []float64, n int) {
	values = make([]float64, len(samples))
	var known []float64
	for i, e := range samples {
		values[i] = math.NaN()
		if e == nil {
			continue
		}
		if v, ok := e.targetValue(at); ok {
			values[i] = v
			known = append(known, v)
		}
	}
	const best = 8
	typical := median(known)
	for i, v := range values {
		switch {
		case m.cfg.Order == LowestTarget:
			values[i] = max(v, best*min(typical, 0))
		case typical != 0:
			values[i] = min(v, best*max(typical, 0))
		}
	}
	return values, len(known)
}
