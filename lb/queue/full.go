package queue

import (
	"cmp"
	"math"

	"github.com/warmgate/warmgate/lb"
)

// Who makes room in a full queue? Its places are shared as grants are, because a class of which nobody waits is granted
// nothing, whatever it is owed: see aging.go. A class of which some wait has a part of the places by its weight, with
// strict order the highest one all, and each a least part where classes age. A class below its part takes a place of
// the one that is most above its own, and what is left over is the higher one's.
//
// Each such step brings two classes nearer to their parts, or a place to a higher class, and who is evicted is gone. So
// no two requests take a place from each other in turns.

// leastPart is what part of the places the classes that age have at least, together: twice that of the grants. They
// wait for their aging before they are granted any, and need the places in which to wait so long.
const leastPart = 2.0 / (perAged + 1)

// waitingInClass returns how many requests of the tenant wait in the class.
func (l *line) waitingInClass(w *lb.Wait) int {
	return l.waitingByTenant()[tenantKey{uint8(l.findClass(w.Class.ID)), uint32(w.Tenant)}]
}

// waitingByTenant returns how many requests of each tenant wait in each class, of all its programs.
func (l *line) waitingByTenant() map[tenantKey]int {
	n := map[tenantKey]int{}
	for i := range l.flows {
		n[l.flows[i].key()] += l.flows[i].waiting
	}
	return n
}

// reservedForOthers returns how many places are kept free for other classes.
func (l *line) reservedForOthers(w *lb.Wait) int {
	free := w.Reserved - w.Class.Reserved
	for i := range l.classes {
		if c := &l.classes[i]; c.id != w.Class.ID {
			free -= min(int(c.reserved), c.waiting)
		}
	}
	return max(0, free)
}

// evictFor evicts a request for one more, if there is one to evict.
func (q *Queue) evictFor(w *lb.Wait) bool {
	victim := q.line.victimOf(w)
	if victim < 0 {
		return false
	}
	r := q.line.at(victim)
	q.ended = append(q.ended, End{Owner: r.owner(), ID: r.id(), Status: Evicted, Row: NoRow})
	q.removeAt(victim)
	return true
}

// victimOf returns the number of the ticket that makes room for the request, -1 for none: the youngest of the tenant
// that holds most of the queue, if the request's own has nothing waiting in any class; else of the tenant with the most
// in a class above its part, if the request's own is below or the other one lower; else of the tenant with the most in
// its own class, if that then has no fewer than the request's own. So a tenant that fills the queue makes room for
// others, and none gains by asking again. Who holds most takes no place of one that waits for its only request.
func (l *line) victimOf(w *lb.Wait) int {
	over, mine := l.overParts(w)
	number, held, all := l.findClass(w.Class.ID), l.waitingByTenant(), l.waitingOfTenant(uint32(w.Tenant))
	own := held[tenantKey{uint8(number), uint32(w.Tenant)}]
	if all == 0 {
		most := l.majority()
		if n := l.waitingOfTenant(most); n > 1 && 2*n > l.waiting {
			if victim := l.youngest(over, held, func(f *flow, c *class) bool {
				return uint32(f.tenant) == most && c.waiting > int(c.reserved)
			}); victim >= 0 {
				return victim
			}
		}
	}
	victim := l.youngest(over, held, func(f *flow, c *class) bool {
		return int(f.class) != number && over[f.class] > 0 && (mine < 0 || c.rank > w.Class.Rank) &&
			(held[f.key()] > 1 || uint32(f.tenant) == uint32(w.Tenant) || 2*(all+1) <= l.waiting)
	})
	if victim < 0 {
		victim = l.youngest(over, held, func(f *flow, _ *class) bool {
			return int(f.class) == number && held[f.key()] >= own+2
		})
	}
	return victim
}

// overParts returns how many more requests of each class wait than its part of the places, for the request's own class
// in mine too. One of which nobody waits has no part.
func (l *line) overParts(w *lb.Wait) (over []int, mine int) {
	number, others := l.findClass(w.Class.ID), 0
	highest, weights := w.Class.Rank, w.Class.Weight
	for i := range l.classes {
		if c := &l.classes[i]; i != number && c.waiting > 0 {
			highest, weights, others = min(highest, c.rank), weights+c.weight, others+1
		}
	}
	part := func(rank uint8, weight float64) float64 {
		p := 0.0
		if w.Aging > 0 {
			p = leastPart / float64(max(others, 1))
		}
		switch {
		case !w.Strict:
			return max(p, weight/weights)
		case rank == highest:
			return 1
		}
		return p
	}
	all := part(w.Class.Rank, w.Class.Weight)
	for i := range l.classes {
		if c := &l.classes[i]; i != number && c.waiting > 0 {
			all += part(c.rank, c.weight)
		}
	}
	shared := float64(max(0, w.Length-w.Reserved)) / all
	over = make([]int, len(l.classes))
	for i := range l.classes {
		if c := &l.classes[i]; i != number && c.waiting > 0 {
			over[i] = c.waiting - int(c.reserved) - int(math.Floor(part(c.rank, c.weight)*shared+0.5))
		}
	}
	mine = -w.Class.Reserved - int(math.Floor(part(w.Class.Rank, w.Class.Weight)*shared+0.5))
	if number >= 0 {
		mine += l.classes[number].waiting
		over[number] = mine
	}
	return over, mine
}

// waitingOfTenant returns how many requests of the tenant wait in all classes.
func (l *line) waitingOfTenant(tenant uint32) (n int) {
	for i := range l.flows {
		if f := &l.flows[i]; uint32(f.tenant) == tenant {
			n += f.waiting
		}
	}
	return n
}

// majority returns the tenant of whom more than half of all requests are, if there is one, and else any (Boyer and
// Moore, 1981).
func (l *line) majority() (tenant uint32) {
	n := 0
	for i := range l.flows {
		switch f := &l.flows[i]; {
		case uint32(f.tenant) == tenant:
			n += f.waiting
		case f.waiting > n:
			tenant, n = uint32(f.tenant), f.waiting-n
		default:
			n -= f.waiting
		}
	}
	return tenant
}

// youngest returns the number of the youngest ticket of one of the flows, -1 for none: of the class that is most over
// its part, of several the lowest, and there of the tenant with the most.
func (l *line) youngest(over []int, held map[tenantKey]int, of func(*flow, *class) bool) (ticket int) {
	ticket = -1
	var best *flow
	for i := range l.flows {
		f := &l.flows[i]
		if f.waiting == 0 || !of(f, &l.classes[f.class]) {
			continue
		}
		order := 1
		if best != nil {
			order = cmp.Or(cmp.Compare(over[f.class], over[best.class]),
				cmp.Compare(l.classes[f.class].rank, l.classes[best.class].rank),
				cmp.Compare(held[f.key()], held[best.key()]))
		}
		if last := f.end() - 1; order > 0 || order == 0 && l.at(ticket).before(l.at(last)) {
			best, ticket = f, last
		}
	}
	return ticket
}
