package queue

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
)

// List returns the number of the list of endpoints with the key, whose endpoints and caps are the given ones from now
// on. It returns false if there are too many lists.
func (q *Queue) List(key uint32, entries []Entry) (number int, ok bool) {
	for i := range q.lists {
		if q.lists[i].key == key {
			q.lists[i].entries, q.lists[i].budgets = entries, false
			return i, true
		}
	}
	if len(q.lists) >= pruneLists {
		q.pruneLists()
	}
	if len(q.lists) >= maxLists {
		return 0, false
	}
	q.lists = append(q.lists, list{key: key, entries: entries})
	return len(q.lists) - 1, true
}

// pruneLists is from how many lists on those that are not needed any more are removed.
const pruneLists = 8

// pruneLists removes the lists that no ticket has.
func (q *Queue) pruneLists() {
	numbers, kept := make([]int, len(q.lists)), q.lists[:0]
	for i, l := range q.lists {
		numbers[i] = len(kept)
		if l.waiting > 0 {
			kept = append(kept, l)
		}
	}
	q.lists = kept
	for i := range q.line.waiting {
		r := q.line.at(i)
		r.setList(numbers[r.list()])
	}
}

// HasOpen reports whether an endpoint of the list is below its caps, or can take so many tokens if it has a budget.
func (q *Queue) HasOpen(now time.Duration, number int, tokens int64, loads Loads) bool {
	if l := &q.lists[number]; l.budgets {
		targets, _ := loads.Targets(now, l.entries, l.bonus)
		return budget.AnyTakes(targets, float64(tokens))
	}
	return slices.ContainsFunc(q.lists[number].entries, func(e Entry) bool { return e.open(loads) })
}

// Admit decides whether one more request may wait: then the error is nil, and in a full queue another one was evicted
// for it. expected is how long the request is likely to wait, 0 if that is not known.
func (q *Queue) Admit(now time.Duration, t *Ticket) (expected time.Duration, err error) {
	w := t.Wait
	likely, hopeless := q.outlook(now, t)
	expected = time.Duration(likely * float64(time.Millisecond))
	switch {
	case hopeless:
		return expected, lb.ErrHopeless
	case w.TenantLength > 0 && q.line.waitingInClass(w) >= w.TenantLength:
		return expected, lb.ErrQueueFull
	case q.line.waiting < w.Length-q.line.reservedForOthers(w):
		return expected, nil
	case q.evictFor(w):
		return expected, nil
	}
	return expected, lb.ErrQueueFull
}

// Add adds a ticket behind those that came before it.
func (q *Queue) Add(now time.Duration, t *Ticket) {
	q.ReadClock(now)
	q.pace.arrived(millis(now), !q.isAwaited(), t)
	q.lists[t.List].waiting++
	q.line.add(t)
	q.pace.running = q.pace.running && q.isAwaited()
}

// isAwaited reports whether somebody waits for an endpoint that is there. There may be none for some who wait: these
// are granted nothing, so that they show nothing of how fast capacity becomes free, nor does that say when their turn
// comes.
func (q *Queue) isAwaited() bool {
	return slices.ContainsFunc(q.lists, func(l list) bool { return l.waiting > 0 && len(l.entries) > 0 })
}
