package memstore

import (
	"math"
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/queue"
)

// poll brings the requests of one scope up to date that wait: in a draft of the table, which it changes.
type poll struct {
	owner  uint64
	placer *placer
	scope  *scope

	changed   bool                 // something in the draft
	more      bool                 // the owner has to poll again
	granted   []lb.LeaseID         // those that were, claimed or not
	ended     map[lb.LeaseID]error // those that wait no longer without a grant
	firstOver time.Duration        // of the scope from now on, unless 0
}

// end notes why a request waits no longer.
func (p *poll) end(id lb.LeaseID, why error) {
	if p.ended == nil {
		p.ended = map[lb.LeaseID]error{}
	}
	p.changed, p.ended[id] = true, why
}

// overdue ends the waits that are over although shared memory cannot be written.
func (p *poll) overdue(now time.Duration) {
	p.ended = nil
	for id, w := range p.scope.waiters {
		if now >= w.until {
			p.end(id, lb.ErrWaitOver)
		}
	}
}

// advance takes out of the queue who has waited long enough or was evicted, and claims what was granted to this owner.
// Tickets are compared with the requests that wait only if there are more or fewer than should be.
func (p *poll) advance(now time.Duration, d *draft) {
	if len(p.scope.waiters) > 0 && now >= p.scope.firstOver {
		p.endWaits(now, d)
	}
	waiting := 0
	if d.queue != nil {
		for _, e := range d.queue.Ended(p.owner) {
			p.takeOver(d, &e)
		}
		waiting = d.queue.WaitingOf(p.owner)
	}
	if p.scope.left || waiting != len(p.scope.waiters)-len(p.granted)-len(p.ended) {
		p.compare(now, d)
	}
}

// endWaits ends the waits that are over, and notes when the next one is.
func (p *poll) endWaits(now time.Duration, d *draft) {
	p.firstOver = math.MaxInt64
	for id, w := range p.scope.waiters {
		if now < w.until {
			p.firstOver = min(p.firstOver, w.until)
			continue
		}
		was := queue.Gone
		if d.queue != nil {
			was, _, _ = d.queue.Find(p.owner, id)
		}
		if was == queue.Waiting {
			d.leave(p.owner, id)
		}
		if was == queue.Waiting || was == queue.Gone {
			p.end(id, lb.ErrWaitOver)
		}
	}
}

// takeOver takes over what has become of a ticket of this owner.
func (p *poll) takeOver(d *draft, e *queue.End) {
	_, known := p.scope.waiters[e.ID]
	switch {
	case !known:
		d.leave(p.owner, e.ID)
		p.changed = true
	case e.Status == queue.Evicted:
		d.leave(p.owner, e.ID)
		p.end(e.ID, lb.ErrEvicted)
	case len(d.steps) >= logLength:
		p.more = true
		p.granted = append(p.granted, e.ID)
	default:
		d.claim(p.owner, e.ID)
		p.changed = true
		p.granted = append(p.granted, e.ID)
	}
}

// compare takes tickets out of the queue that no request of this owner has. Requests that are missing, because this
// owner was presumed dead, wait again in their old places.
func (p *poll) compare(now time.Duration, d *draft) {
	there := map[lb.LeaseID]bool{}
	if d.queue != nil {
		d.queue.EachWaiting(p.owner, func(id lb.LeaseID) { there[id] = true })
	}
	for id := range there {
		if p.scope.waiters[id] == nil {
			d.leave(p.owner, id)
			p.changed = true
		}
	}
	for id, w := range p.scope.waiters {
		if _, ended := p.ended[id]; ended || there[id] || slices.Contains(p.granted, id) {
			continue
		}
		p.placer.enqueueAgain(now, p.scope, d, id, w)
		p.changed = true
	}
}
