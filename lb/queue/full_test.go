package queue_test

import (
	"errors"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/queue"
)

// waits returns how a request of the class waits in a queue of 3 places, after change.
func waits(c lb.Class, change func(*lb.Wait)) *lb.Wait {
	w := &lb.Wait{Max: time.Minute, Class: c, Length: 3}
	if change != nil {
		change(w)
	}
	return w
}

var reserved = lb.Class{ID: interactive.ID, Rank: interactive.Rank, Weight: interactive.Weight, Reserved: 2}

func keeps(w *lb.Wait) { w.Reserved = 2 }

// fullQueues are queues and who comes then: whether it is let in, and who is evicted for it.
var fullQueues = []struct {
	name   string
	there  []lb.Class
	wait   *lb.Wait
	err    error
	victim lb.LeaseID
}{
	{"has places", []lb.Class{batch, batch}, waits(batch, nil), nil, 0},
	{"is full", []lb.Class{batch, batch, batch}, waits(batch, nil), lb.ErrQueueFull, 0},
	{
		"evicts the youngest of the lower class",
		[]lb.Class{batch, batch, interactive},
		waits(interactive, nil),
		nil, 2,
	},
	{
		"evicts nobody of its own class",
		[]lb.Class{interactive, interactive, interactive},
		waits(interactive, nil),
		lb.ErrQueueFull, 0,
	},
	{
		"evicts the youngest of the tenant with the most",
		[]lb.Class{batch, batch, interactive},
		waits(batch, func(w *lb.Wait) { w.Tenant = 9 }),
		nil, 2,
	},
	{
		"evicts nobody of a tenant that would have fewer then",
		[]lb.Class{batch, interactive, interactive},
		waits(batch, func(w *lb.Wait) { w.Tenant = 9 }),
		lb.ErrQueueFull, 0,
	},
	{"keeps reserved places", []lb.Class{batch}, waits(batch, keeps), lb.ErrQueueFull, 0},
	{"keeps those that are not in use", []lb.Class{reserved, batch}, waits(batch, keeps), lb.ErrQueueFull, 0},
	{"gives reserved places to their class", []lb.Class{reserved, batch}, waits(reserved, keeps), nil, 0},
	{"bounds tenants", []lb.Class{batch}, waits(batch, func(w *lb.Wait) { w.TenantLength = 1 }), lb.ErrQueueFull, 0},
	{
		"bounds each tenant",
		[]lb.Class{batch},
		waits(batch, func(w *lb.Wait) { w.TenantLength, w.Tenant = 1, 9 }),
		nil, 0,
	},
}

func TestFullQueue(t *testing.T) {
	for _, c := range fullQueues {
		t.Run(c.name, func(t *testing.T) {
			r := newRoom(t, 1)
			for _, class := range c.there {
				r.add(class, nil)
			}
			if _, err := r.q.Admit(r.now, &queue.Ticket{Wait: c.wait}); !errors.Is(err, c.err) {
				t.Fatalf("got %v, want %v", err, c.err)
			}
			for id := range r.next {
				if status, _, _ := r.q.Find(1, id+1); (status == queue.Evicted) != (id+1 == c.victim) {
					t.Errorf("ticket %d: %v", id+1, status)
				}
			}
		})
	}
}
