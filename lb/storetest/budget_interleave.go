package storetest

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
)

// rush is owners that act between each other's reads and writes, as fast as budgets allow.
type rush struct {
	*world
	rng    *rand.Rand
	owners []*tracked
	plan   *lb.Plan
	next   lb.LeaseID
	held   map[lb.LeaseID]*tracked
	at     map[lb.LeaseID]int // endpoint of a lease
	flight []int64
	given  []float64 // tokens of each endpoint
	depth  int
}

// testBudgetInterleaved: four owners are never granted more than a cap, nor in all more than a full bucket and what has
// refilled since, also if they act between a read and a write of another one.
func testBudgetInterleaved(t *testing.T, w *world) {
	r := &rush{
		world: w, rng: rand.New(rand.NewPCG(16, 1)), flight: make([]int64, 3), given: make([]float64, 3),
		held: map[lb.LeaseID]*tracked{}, at: map[lb.LeaseID]int{},
		plan: Budgeted(Addrs(3), budget.Limits{Weight: 1, Tokens: 6000}, 0),
	}
	for i := range r.plan.Candidates {
		r.plan.Candidates[i].Cap = int64(2 + i)
		r.plan.Budget.Limits[i].Weight = float64(1 + i)
	}
	for range 4 {
		r.owners = append(r.owners, track(w.NewOwner()))
	}
	if b, ok := w.Backend.(Interleaver); ok {
		b.Between(func() {
			if r.depth < 2 && r.rng.IntN(6) == 0 {
				r.depth++
				r.act()
				r.depth--
			}
		})
		defer b.Between(nil)
	}
	start := w.now
	for range 4000 {
		r.act()
		if r.rng.IntN(3) == 0 {
			w.tick(time.Duration(r.rng.IntN(40)) * time.Millisecond)
		}
		for i := range r.given {
			refilled := 6000 * (w.now - start).Minutes()
			if r.given[i] > 6000+refilled+1e-6 {
				t.Fatalf("endpoint %d was given %g tokens; it held 6000, and %g refilled", i, r.given[i], refilled)
			}
		}
	}
	if used := r.given[0] + r.given[1] + r.given[2]; used < 3*6000 {
		t.Fatalf("only %g tokens were given", used)
	}
	if b, ok := w.Backend.(Interleaver); ok {
		b.Between(nil)
	}
	for id, o := range r.held {
		o.Release(w.now, id)
	}
	w.want(Addrs(3), 0, 0, 0)
}

// act has one of the owners that are in no call reserve or release.
func (r *rush) act() {
	o := r.owners[r.rng.IntN(len(r.owners))]
	if o.calls > 0 {
		return
	}
	if r.rng.IntN(5) < 2 {
		for id, holder := range r.held {
			if holder != o {
				continue
			}
			delete(r.held, id)
			// The slot may be given to another owner as soon as the release is written, before it returns.
			r.flight[r.at[id]]--
			o.Release(r.now, id)
			return
		}
	}
	r.next++
	id, p := r.next, *r.plan
	p.Budget.Tokens = int64(1 + r.rng.IntN(300))
	o.Reserve(r.now, id, &p, func(g lb.Grant, err error) {
		switch {
		case errors.Is(err, lb.ErrOverBudget), errors.Is(err, lb.ErrContended):
		case err != nil:
			r.t.Fatalf("reserve: %v", err)
		default:
			r.held[id], r.at[id] = o, g.Index
			r.given[g.Index] += float64(p.Budget.Tokens)
			limit := p.Candidates[g.Index].Cap
			if r.flight[g.Index]++; r.flight[g.Index] > limit {
				r.t.Fatalf("endpoint %d has %d in flight, its cap is %d", g.Index, r.flight[g.Index], limit)
			}
		}
	})
}
