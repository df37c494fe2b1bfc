package queue_test

import (
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/queue"
)

// A silent owner has no turn, whatever it has waited for, and keeps its place.
func TestSilentOwnersAreSkipped(t *testing.T) {
	r := newRoom(t, 1)
	silent := func(t *queue.Ticket) { t.Owner, t.Wait.Aging = 2, time.Millisecond }
	first := r.add(interactive, silent)
	r.now += time.Second
	second := r.add(batch, nil)
	third := r.add(interactive, silent)
	if got := r.free(0); got != second {
		t.Errorf("granted %d, want %d of the owner that is there", got, second)
	}
	var left []lb.LeaseID
	r.q.EachWaiting(2, func(id lb.LeaseID) { left = append(left, id) })
	if !slices.Equal(left, []lb.LeaseID{first, third}) {
		t.Errorf("of the silent owner %v wait", left)
	}
}

// Nothing is set aside for a silent owner.
func TestNothingIsSetAsideForSilentOwners(t *testing.T) {
	q, add := withBudgets(t, 1, 1000)
	p := newPurses()
	add(6000, batch)
	granted(t, q, p, 0)
	w := &lb.Wait{Max: time.Minute, Since: start, Class: batch}
	q.Add(start, &queue.Ticket{Owner: 2, ID: 9, Wait: w, Tokens: 3000, List: 0, Wants: queue.NoRow})
	add(1000, batch)
	if asides := q.Asides(start+5*time.Second, p); !slices.Equal(asides, []queue.Aside{{Row: 0, Tokens: 1000}}) {
		t.Errorf("set aside: %v", asides)
	}
}
