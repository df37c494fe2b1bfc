package models

import "time"

// Groups is how many groups models are in, by their names, whose requests stay together. With one for each model,
// whatever names clients make up, there would be as many lists of candidates, of which a store keeps a few.
const Groups = 24

const (
	// spreadHalfLife is the time after which a request counts half in its group's share of all requests.
	spreadHalfLife = 10 * time.Second
	// spreadFloor is how many requests of other groups are assumed beside those that were seen, so that a group with
	// few requests has one endpoint even if they are the only ones.
	spreadFloor = 4
	// spreadRoom is by which part an endpoint may have more than its mean share of the requests before the group gets
	// another endpoint; a number of endpoints that is too high by less than spreadKept stays.
	spreadRoom = 0.25
	spreadKept = 0.5
)

// spreads counts the requests for each group of a cluster's models.
type spreads struct {
	groups   [Groups]spread
	requests float64 // of all groups, decaying
	halvedAt time.Duration
}

// spread is one group.
type spread struct {
	requests  float64 // decaying
	endpoints int     // that these need
}

// Placed notes that a request for the model was placed.
func (f *Facts) Placed(now time.Duration, model uint64) {
	s := &f.spreads
	if age := now - s.halvedAt; age >= spreadHalfLife {
		keep := 0.5
		if age >= 10*spreadHalfLife {
			keep = 0
		}
		s.halvedAt = now
		s.requests *= keep
		for i := range s.groups {
			s.groups[i].requests *= keep
		}
	}
	s.requests++
	s.groups[model%Groups].requests++
}

// Spread returns over how many of n endpoints the requests for the model's group are spread: as few as their share of
// all requests needs. A number that would change by little stays.
func (f *Facts) Spread(model uint64, n int) int {
	s := &f.spreads
	g := &s.groups[model%Groups]
	need := float64(n)*g.requests/(s.requests+spreadFloor) + 1 - spreadRoom
	if have := float64(g.endpoints); need >= have+1 || need < have-spreadKept {
		g.endpoints = int(need)
	}
	return min(max(1, g.endpoints), n)
}
