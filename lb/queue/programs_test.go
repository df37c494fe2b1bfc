package queue_test

import (
	"slices"
	"testing"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/queue"
)

// A tenant has so many programs with turns of their own, and each request is served all the same.
func TestProgramsAreBounded(t *testing.T) {
	r := newRoom(t, 1)
	const n = 300
	for i := range uint64(n) {
		r.add(batch, func(t *queue.Ticket) { t.Wait.Tenant = lb.TurnOf(1, i+1) })
	}
	if flows := r.q.Flows(); flows != 128 {
		t.Errorf("%d programs of one tenant, want 128", flows)
	}
	for range n {
		if r.free(0) == 0 {
			t.Fatalf("%d wait, and nobody is granted a place", r.q.Waiting())
		}
	}
}

// A request that was smaller than it was counted for takes its program no further back than that, however many programs
// there are by then: so the class's time does not go back, at which new tenants begin.
func TestCorrectionOfOneOfManyPrograms(t *testing.T) {
	r := newRoom(t, 1)
	add := func(tenant, program uint64) lb.LeaseID {
		return r.add(batch, func(t *queue.Ticket) { t.Wait.Tenant, t.Tokens = lb.TurnOf(tenant, program), 1000 })
	}
	for range 12 { // of a tenant that always waits
		add(3, 1)
	}
	for range 5 {
		r.free(0) // the class's time is 4000
	}
	one := add(1, 1)
	for r.free(0) != one {
	}
	for i := range uint64(40) {
		add(1, 10+i)
	}
	one = add(1, 1)
	r.q.Correct(r.now, batch.ID, lb.TurnOf(1, 1), -900)
	for r.free(0) != one {
	}
	late := []lb.LeaseID{add(2, 1), add(2, 1), add(2, 1), add(2, 1)}
	if got := r.order(0, 4); slices.Equal(got, late) {
		t.Error("a new tenant has four turns before one that waits")
	}
}
