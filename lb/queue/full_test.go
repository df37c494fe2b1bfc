package queue_test

import (
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

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
		"evicts one of a higher class whose tenant holds most of the queue",
		[]lb.Class{interactive, interactive, interactive},
		waits(batch, func(w *lb.Wait) { w.Tenant = 9 }),
		nil, 3,
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

// crowd is a full queue and what waits in it.
type crowd struct {
	q      *queue.Queue
	rng    *rand.Rand
	length int
	strict bool
	aging  time.Duration
	now    time.Duration
	next   lb.LeaseID
	by     map[lb.LeaseID]lb.Wait
}

// counts returns how many wait, of the class, and of the tenant in all classes.
func (c *crowd) counts(class uint16, tenant uint64) (ofClass, ofTenant int) {
	for _, w := range c.by {
		if w.Class.ID == class {
			ofClass++
		}
		if uint32(w.Tenant) == uint32(tenant) {
			ofTenant++
		}
	}
	return ofClass, ofTenant
}

// most returns how many are of the tenant with the most.
func (c *crowd) most() (n int) {
	for tenant := range uint64(6) {
		_, of := c.counts(0, tenant)
		n = max(n, of)
	}
	return n
}

// admit lets a request come, and returns whether it may wait and which one was evicted for it, 0 for none.
func (c *crowd) admit(q *queue.Queue, w lb.Wait) (id, victim lb.LeaseID, ok bool) {
	list, _ := q.List(7, []queue.Entry{{Row: 0, Cap: 1}})
	id, w.Since = c.next+1, c.now
	t := &queue.Ticket{Owner: 1, ID: id, Wait: &w, Tokens: 100, List: list, Wants: queue.NoRow}
	if _, err := q.Admit(c.now, t); err != nil {
		return 0, 0, false
	}
	q.Add(c.now, t)
	for _, e := range q.Ended(1) {
		victim = e.ID
		q.Remove(1, e.ID)
	}
	return id, victim, true
}

var crowdClasses = []lb.Class{interactive, {ID: 77, Rank: 1, Weight: 3}, {ID: batch.ID, Rank: 2, Weight: 1}}

// step lets one request come or leave.
func (c *crowd) step(t *rapid.T) {
	c.now += time.Millisecond
	if c.rng.IntN(4) == 0 && len(c.by) > 0 {
		ids := slices.Sorted(maps.Keys(c.by))
		id := ids[c.rng.IntN(len(ids))]
		c.q.Remove(1, id)
		delete(c.by, id)
		return
	}
	w := lb.Wait{Max: time.Hour, Length: c.length, Strict: c.strict, Aging: c.aging}
	w.Class = crowdClasses[c.rng.IntN(3)]
	w.Tenant = lb.TurnOf(c.rng.Uint64N(6)*c.rng.Uint64N(2), c.rng.Uint64N(3))
	full := len(c.by) == c.length
	ofClass, ofTenant := c.counts(w.Class.ID, w.Tenant)
	id, victim, ok := c.admit(c.q, w)
	switch {
	case !full && (!ok || victim != 0), full && ok && victim == 0:
		t.Fatalf("%d of %d wait: let in %v, evicted %d", len(c.by), c.length, ok, victim)
	case !ok && ofTenant == 0 && c.most() > max(1, c.length/2):
		t.Fatalf("a tenant without any was refused while another one holds %d of %d", c.most(), c.length)
	case !ok && 2*(ofTenant+1) <= c.length && ofClass+1 <= c.least(w.Class):
		t.Fatalf("class %d was refused with %d of %d waiting: %v", w.Class.ID, ofClass, c.length, c.by)
	}
	if !ok {
		return
	}
	c.next = id
	if c.by[id] = w; victim == 0 {
		return
	}
	lost := c.by[victim]
	if delete(c.by, victim); c.q.Waiting() != c.length {
		t.Fatalf("%d wait, not %d", c.q.Waiting(), c.length)
	}
	again, err := queue.Decode(c.q.Append(nil, c.now))
	if err != nil {
		t.Fatal(err)
	}
	if _, other, _ := c.admit(again, lost); other != 0 {
		o := c.by[other]
		if o.Class.ID == w.Class.ID && o.Tenant == w.Tenant {
			t.Fatalf("%+v takes the place of %+v, and that takes it back", w, lost)
		}
	}
}

// least returns how many places the class has at least, beside the others that wait.
func (c *crowd) least(class lb.Class) int {
	weights, highest := class.Weight, class.Rank
	for _, other := range crowdClasses {
		if n, _ := c.counts(other.ID, 0); n > 0 && other.ID != class.ID {
			weights, highest = weights+other.Weight, min(highest, other.Rank)
		}
	}
	part := class.Weight / weights
	switch {
	case c.strict && class.Rank == highest:
		part = 1
	case c.strict:
		part = 0
	}
	if c.aging > 0 {
		part = max(part, 0.1) / 1.2
	}
	return int(math.Round(part*float64(c.length))) - 1 // the parts of several classes are rounded
}

// In whatever order requests come, each class has its part of a full queue, a tenant without any is let in while
// another one holds most of it, and no two take a place from each other in turns.
func TestAFullQueueIsShared(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 5))
		c := &crowd{q: &queue.Queue{}, rng: rng, now: start}
		c.length, c.strict = 1+c.rng.IntN(40), c.rng.IntN(2) == 0
		c.aging, c.by = time.Duration(c.rng.IntN(2))*time.Second, map[lb.LeaseID]lb.Wait{}
		for range 400 {
			c.step(rt)
		}
	})
}
