package policy

import (
	"math"
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/models"
)

// affinity keeps the requests for a model, or an adapter, on few endpoints, with those of its group: those that their
// share of the requests needs, the first in an order that all gateways come to by its name alone (see homes). There its
// weights are loaded already, in place of those of others. It is a cost, so what is cached, the load and the engine's
// samples count as well: an endpoint behind the first ones costs as much as some requests more, the farther behind the
// more, up to weight. So a model that gets busy goes on to the next one in its order.
type affinity struct {
	weight float64 // in typical requests in flight; 0: it does not matter which model a request is for
	homes  homes
}

// affinitySteps is how many endpoints behind the first ones it takes until one costs the whole weight.
const affinitySteps = 4

// near returns the list for a request for the model, in a tier of so many endpoints. load is that of a typical request.
func (p *leastRequest) near(
	now time.Duration, model uint64, l lb.List, tier uint8, size int, v *lb.View, load float64,
) lb.List {
	first := p.facts.Spread(model, size)
	if first >= min(size, lb.MaxOrder) {
		return l
	}
	group := lb.Mix(model%models.Groups + 1)
	params := lb.Mix(lb.Mix(group^uint64(first)) ^ math.Float64bits(load) ^ uint64(tier))
	return p.derived.Get(now, l, params, func(cs []lb.Candidate) []lb.Candidate {
		out := slices.Clone(cs)
		order := p.affinity.homes.order(now, group, l, tier, v, p.cluster)
		for i := range out {
			if out[i].Tier == tier { // those that the order is too short for
				out[i].Base += p.affinity.cost(load, affinitySteps)
			}
		}
		for at, i := range order {
			out[i].Base = cs[i].Base + p.affinity.cost(load, at-first+1)
		}
		return out
	})
}

// cost returns what an endpoint costs that is so far behind the last of the first ones.
func (a *affinity) cost(load float64, behind int) float64 {
	return load * a.weight * float64(min(max(0, behind), affinitySteps)) / affinitySteps
}
