package lb

import "math"

// Why is why a candidate was chosen. The zero value: it is not known.
type Why struct {
	Rule     Rule
	RunnerUp int     // index of the next best candidate below its caps, [Full] for none with a finite cost
	LostBy   float64 // by how much the request would have cost more there; 0 if costs have not decided
}

// Rule is what has decided between the candidates of a plan.
type Rule uint8

// The rules.
const (
	Unknown  Rule = iota
	ByCost        // the lowest cost
	ByTie         // a random draw among equal costs
	ByHome        // the home of the session: by its bound, or among equal costs
	ByBudget      // the rule of package budget
	ByTurn        // it has waited in the queue until its turn came, at the first endpoint that was free
	ByStore       // none of these: the store has decided by other loads than these
	ByCaps        // none is chosen, because all are full
)

// String returns the rule's name, as decisions are shown.
func (r Rule) String() string {
	return [...]string{"", "cost", "tie", "home", "budget", "turn", "store", "caps"}[r]
}

// MaxLostBy bounds by how much a cost is told to be higher, so that logs have no endless numbers.
const MaxLostBy = 1e15

// excess returns by how much a cost is above the lowest one, 0 if there is none.
func excess(cost, lowest float64) float64 {
	if math.IsInf(cost, 1) {
		return 0
	}
	return min(cost-lowest, MaxLostBy)
}
