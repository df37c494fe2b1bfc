package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// short returns a plan for a queue of the given length.
func short(addrs []string, class lb.Class, length int) *lb.Plan {
	p := limited(addrs, 1, wait(class))
	p.Wait.Length = length
	return p
}

func testQueueLength(_ *testing.T, l *line) {
	o, addrs := l.join(2), Addrs(1)
	p := short(addrs, high, 3)
	holder := l.take(o[0], p)
	waiting := []*asked{l.queue(o[0], p), l.queue(o[1], p), l.queue(o[0], p)}
	l.refuse(o[1], p, lb.ErrQueueFull)
	l.refuse(o[0], short(addrs, low, 3), lb.ErrQueueFull)
	l.granted(waiting)
	l.release(holder)
	l.granted(waiting, waiting[0])
	waiting = append(waiting[1:], l.queue(o[1], p))
	l.refuse(o[1], p, lb.ErrQueueFull)
	l.release(waiting[1])
	l.queue(o[1], p)
}

func testQueueTenantLength(_ *testing.T, l *line) {
	o, addrs := l.join(2), Addrs(1)
	of := func(class lb.Class, tenant uint64) *lb.Plan {
		p := limited(addrs, 1, wait(class))
		p.Wait.Tenant, p.Wait.TenantLength = tenant, 2
		return p
	}
	holder := l.take(o[0], of(high, 5))
	first := l.queue(o[0], of(high, 5))
	second := l.queue(o[1], of(high, 5))
	l.refuse(o[0], of(high, 5), lb.ErrQueueFull)
	l.queue(o[0], of(high, 6))
	l.queue(o[0], of(low, 5))
	l.release(holder)
	l.granted([]*asked{first, second}, first)
	l.queue(o[1], of(high, 5))
	l.refuse(o[1], of(high, 5), lb.ErrQueueFull)
}

// testQueueEviction: in a full queue the youngest of the class that is most above its part makes room.
func testQueueEviction(t *testing.T, l *line) {
	o, addrs := l.join(2), Addrs(1)
	middle := lb.Class{ID: 3, Rank: 1, Weight: 4}
	lowest := lb.Class{ID: 2, Rank: 2, Weight: 1}
	holder := l.take(o[0], short(addrs, high, 4))
	a, b := l.queue(o[0], short(addrs, lowest, 4)), l.queue(o[1], short(addrs, lowest, 4))
	c, d := l.queue(o[1], short(addrs, middle, 4)), l.queue(o[0], short(addrs, middle, 4))
	l.refuse(o[0], short(addrs, lowest, 4), lb.ErrQueueFull)
	e := l.queue(o[0], short(addrs, high, 4))
	l.ended(b, lb.ErrEvicted)
	f := l.queue(o[0], short(addrs, middle, 4))
	l.ended(a, lb.ErrEvicted)
	l.refuse(o[0], short(addrs, middle, 4), lb.ErrQueueFull)
	g := l.queue(o[1], short(addrs, high, 4))
	l.ended(f, lb.ErrEvicted)
	waiting := []*asked{c, d, e, g}
	l.granted(waiting)
	if n := o[1].Queue(l.now, "llm").Waiting; n != 4 {
		t.Fatalf("%d wait, want 4", n)
	}
	l.release(b) // has nothing to release
	l.drain(holder, waiting)
	l.want(addrs, 0)
}

// testQueueFlood: a tenant that fills the queue makes room for others, down to as many as they have, its youngest
// first.
func testQueueFlood(t *testing.T, l *line) {
	o, addrs := l.join(2), Addrs(1)
	of := func(tenant uint64) *lb.Plan {
		p := short(addrs, high, 6)
		p.Wait.Tenant = tenant
		return p
	}
	l.take(o[0], of(1))
	var flood []*asked
	for range 6 {
		flood = append(flood, l.queue(o[0], of(1)))
	}
	l.refuse(o[1], of(1), lb.ErrQueueFull)
	l.queue(o[1], of(2))
	l.ended(flood[5], lb.ErrEvicted)
	l.queue(o[0], of(3))
	l.ended(flood[4], lb.ErrEvicted)
	l.queue(o[1], of(2))
	l.ended(flood[3], lb.ErrEvicted)
	l.refuse(o[0], of(2), lb.ErrQueueFull) // it would have as many as the flood
	l.granted(flood[:3])
	if n := o[1].Queue(l.now, "llm").Waiting; n != 6 {
		t.Fatalf("%d wait, want 6", n)
	}
}

// testQueueParts: in a full queue a class below its part of the places takes some of one that is above its own.
func testQueueParts(_ *testing.T, l *line) {
	addrs := Addrs(1)
	for _, c := range []struct {
		scope           string
		strict          bool
		aging           time.Duration
		length, lowPart int
	}{
		{"weighted", false, 0, 18, 2},
		{"strict", true, 0, 12, 0},
		{"weighted, aging", false, time.Minute, 20, 4},
		{"strict, aging", true, time.Minute, 12, 2},
	} {
		of := func(class lb.Class) *lb.Plan {
			p := short(addrs, class, c.length)
			p.Scope, p.Wait.Strict, p.Wait.Aging = c.scope, c.strict, c.aging
			return p
		}
		o := l.join(2)
		l.take(o[0], of(high))
		var waiting []*asked
		for i := range c.length {
			waiting = append(waiting, l.queue(o[i%2], of(high)))
		}
		for i := range c.lowPart {
			l.queue(o[i%2], of(low))
			l.ended(waiting[len(waiting)-1-i], lb.ErrEvicted)
		}
		l.refuse(o[1], of(low), lb.ErrQueueFull)
		l.refuse(o[0], of(high), lb.ErrQueueFull)
		l.release(waiting[0])
		above := l.queue(o[0], of(low)) // in the place that is free
		l.queue(o[1], of(high))
		l.ended(above, lb.ErrEvicted)
		l.granted(waiting[1 : len(waiting)-c.lowPart])
	}
}

// testQueueMajority: a tenant that holds most of the queue makes room for those that have nothing waiting, whatever
// their class, and takes no place of one that has one.
func testQueueMajority(t *testing.T, l *line) {
	o, addrs := l.join(2), Addrs(1)
	of := func(class lb.Class, tenant uint64) *lb.Plan {
		p := short(addrs, class, 6)
		p.Wait.Tenant, p.Wait.Strict = tenant, true
		return p
	}
	l.take(o[0], of(high, 1))
	var flood, light []*asked
	for range 6 {
		flood = append(flood, l.queue(o[0], of(high, 1)))
	}
	for tenant := range uint64(3) {
		light = append(light, l.queue(o[1], of(low, 2+tenant)))
		l.ended(flood[5-tenant], lb.ErrEvicted)
		l.refuse(o[1], of(low, 2+tenant), lb.ErrQueueFull)
	}
	l.refuse(o[1], of(low, 9), lb.ErrQueueFull) // nobody holds more than a half
	l.refuse(o[0], of(high, 1), lb.ErrQueueFull)
	l.granted(slices.Concat(flood[:3], light))
	l.queue(o[1], of(high, 8))
	l.ended(light[2], lb.ErrEvicted)
	if n := o[1].Queue(l.now, "llm").Waiting; n != 6 {
		t.Fatalf("%d wait, want 6", n)
	}
}

// testQueueReserved: the places of a class are free for it, and nobody takes them.
func testQueueReserved(_ *testing.T, l *line) {
	o, addrs := l.join(2), Addrs(1)
	first, second := high, low
	first.Reserved, second.Reserved = 2, 1
	a, b := short(addrs, first, 5), short(addrs, second, 5)
	a.Wait.Reserved, b.Wait.Reserved = 3, 3
	l.take(o[0], a)
	kept := l.queue(o[0], b) // in its own place
	l.queue(o[1], b)
	youngest := l.queue(o[0], b)       // in the two that are nobody's
	l.refuse(o[1], b, lb.ErrQueueFull) // the other two are of the higher class
	l.queue(o[1], a)
	l.queue(o[0], a)
	l.queue(o[1], a)
	l.ended(youngest, lb.ErrEvicted)
	l.queue(o[1], a)
	l.refuse(o[0], a, lb.ErrQueueFull) // one place is the lower class's
	l.granted([]*asked{kept})
}
