package policy

import (
	"math"
	"slices"

	"github.com/warmgate/warmgate/lb"
)

// tierCosts are the costs that depend on the tier of a request.
type tierCosts struct {
	tier        uint8   // that the request is drawn for
	requestLoad float64 // load of a typical request in the plan's unit: what one unit of ZonePenalty costs
}

// key distinguishes costs: the lower bits of a rounded load are zero.
func (p tierCosts) key() uint64 { return math.Float64bits(p.requestLoad) | uint64(p.tier) }

// apply returns the candidates with the cost of crossing zones added, and with a cost for other tiers so high that
// their endpoints are used only when every endpoint of the request's tier is at its cap.
func (p tierCosts) apply(cs []lb.Candidate) []lb.Candidate {
	const hugeLoad = 1 << 32 // above the load of any endpoint
	out := slices.Clone(cs)
	low, high, slope := math.Inf(1), math.Inf(-1), 0.0
	for i := range out {
		c := &out[i]
		c.Base += c.ZonePenalty * p.requestLoad
		low, high = min(low, c.Base), max(high, c.Base)
		slope = max(slope, (c.Slope+c.OverSlope)/c.Weight)
	}
	for i := range out {
		if out[i].Tier != p.tier {
			out[i].Base += high - low + hugeLoad*slope
		}
	}
	return out
}
