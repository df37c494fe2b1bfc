package memstore

import (
	"math"
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
	"github.com/warmgate/warmgate/lb/queue"
)

// enqueue puts the request into the queue, unless it may not wait there. If an endpoint that it may use is open and
// its turn has come, it is claimed at once.
func (s *Store) enqueue(now time.Duration, d *draft, r *reservation, matched []int) error {
	d.begin()
	d.asking = r
	s.self.showLife(now)
	if r.scope.left { // a ticket with this id may be in the queue still
		d.leave(s.self.owner, r.id)
	}
	w := r.plan.Wait
	isNew := w.Since == 0
	if isNew {
		w.Since = now
	}
	list, ok := r.scope.list(d.queue, r.plan)
	if !ok {
		return lb.ErrNoRoom
	}
	ticket := s.ticket(now, d, r, &w, list, matched)
	if isNew && !ticket.Open && s.admit(now, d, r, ticket) != nil {
		return r.refused
	}
	d.queue.Add(now, ticket)
	r.waits, r.matched = true, slices.Clone(matched)
	if !ticket.Open {
		return nil
	}
	d.dispatch(now, s.self.owner)
	if was, _, _ := d.queue.Find(s.self.owner, r.id); was != queue.Waiting || !isNew {
		return nil
	}
	d.leave(s.self.owner, r.id)
	// The dispatch may have granted to others what was open.
	ticket.Open = !r.plan.HasBudget() && d.queue.HasOpen(now, list, ticket.Tokens, d)
	if s.admit(now, d, r, ticket) != nil {
		r.waits = false
		return nil // others may have been granted something
	}
	d.queue.Add(now, ticket)
	return nil
}

// admit decides whether the request may wait. When it would be placed the queue may not know, but its budget does.
func (s *Store) admit(now time.Duration, d *draft, r *reservation, t *queue.Ticket) error {
	if r.expected, r.refused = d.queue.Admit(now, t); r.refused != nil && r.expected == 0 && r.plan.HasBudget() {
		ts, _, _ := s.targets(now, d, r, budget.MaxRefusals)
		r.expect(ts)
	}
	return r.refused
}

// replace takes the ticket out of the queue in whose place the request comes. If that was evicted, so is the request.
func (s *Store) replace(d *draft, r *reservation) {
	old := r.plan.Wait.Instead
	if old == 0 {
		return
	}
	if was, _, _ := d.leave(s.self.owner, old); was == queue.Evicted {
		r.refused = lb.ErrQueueFull
	}
}

// leave takes a request out of the queue that waits no longer.
func (s *Store) leave(now time.Duration, sc *scope, id lb.LeaseID) {
	s.requests.forget(sc, id)
	err := s.ledger.swap(now, sc, func(d *draft) error {
		d.leave(s.self.owner, id)
		return nil
	})
	sc.left = sc.left || err != nil
	s.requests.answer(now)
}

// Poll implements [lb.Store].
func (s *Store) Poll(now time.Duration) time.Duration {
	next := time.Duration(0)
	for _, sc := range s.ledger.scopes {
		if len(sc.waiters) == 0 && !sc.left {
			continue
		}
		s.pollScope(now, sc)
		if len(sc.waiters) > 0 {
			next = now + lb.PollPeriod
		}
	}
	s.requests.answer(now)
	return next
}

// pollScope brings the requests of one scope up to date that wait. Most of the time nothing has changed: then it only
// reads.
func (s *Store) pollScope(now time.Duration, sc *scope) {
	var p progress
	s.self.showLife(now)
	err := s.ledger.swap(now, sc, func(d *draft) error {
		p = progress{changed: d.takeBack()}
		s.advance(now, sc, d, &p)
		if p.changed || d.dispatch(now, s.self.owner) {
			return nil
		}
		return errUnchanged
	})
	if err != nil {
		s.overdue(now, sc, &p)
	}
	if err == nil && p.firstOver > 0 {
		sc.firstOver = p.firstOver
	}
	sc.left = err != nil || p.more
	for id, why := range p.ended {
		if w := sc.waiters[id]; w != nil {
			s.requests.forget(sc, id)
			s.requests.finished = append(s.requests.finished, finished{waiter: w, err: why})
		}
	}
}

// progress is what a poll finds.
type progress struct {
	changed   bool                 // something in the draft
	more      bool                 // the owner has to poll again
	granted   []lb.LeaseID         // those that were, claimed or not
	ended     map[lb.LeaseID]error // those that wait no longer without a grant
	firstOver time.Duration        // of the scope from now on, unless 0
}

func (p *progress) end(id lb.LeaseID, why error) {
	if p.ended == nil {
		p.ended = map[lb.LeaseID]error{}
	}
	p.changed, p.ended[id] = true, why
}

// overdue ends the waits that are over although shared memory cannot be written.
func (s *Store) overdue(now time.Duration, sc *scope, p *progress) {
	p.ended = nil
	for id, w := range sc.waiters {
		if now >= w.until {
			p.end(id, lb.ErrWaitOver)
		}
	}
}

// advance takes out of the queue who has waited long enough or was evicted, and claims what was granted to this owner.
// Tickets are compared with the requests that wait only if there are more or fewer than should be.
func (s *Store) advance(now time.Duration, sc *scope, d *draft, p *progress) {
	if len(sc.waiters) > 0 && now >= sc.firstOver {
		s.endWaits(now, sc, d, p)
	}
	waiting := 0
	if d.queue != nil {
		for _, e := range d.queue.Ended(s.self.owner) {
			s.takeOver(sc, d, p, &e)
		}
		waiting = d.queue.WaitingOf(s.self.owner)
	}
	if sc.left || waiting != len(sc.waiters)-len(p.granted)-len(p.ended) {
		s.compare(now, sc, d, p)
	}
}

// endWaits ends the waits that are over, and notes when the next one is.
func (s *Store) endWaits(now time.Duration, sc *scope, d *draft, p *progress) {
	p.firstOver = math.MaxInt64
	for id, w := range sc.waiters {
		if now < w.until {
			p.firstOver = min(p.firstOver, w.until)
			continue
		}
		was := queue.Gone
		if d.queue != nil {
			was, _, _ = d.queue.Find(s.self.owner, id)
		}
		if was == queue.Waiting {
			d.leave(s.self.owner, id)
		}
		if was == queue.Waiting || was == queue.Gone {
			p.end(id, lb.ErrWaitOver)
		}
	}
}

// takeOver takes over what has become of a ticket of this owner.
func (s *Store) takeOver(sc *scope, d *draft, p *progress, e *queue.End) {
	_, known := sc.waiters[e.ID]
	switch {
	case !known:
		d.leave(s.self.owner, e.ID)
		p.changed = true
	case e.Status == queue.Evicted:
		d.leave(s.self.owner, e.ID)
		p.end(e.ID, lb.ErrEvicted)
	case len(d.steps) >= logLength:
		p.more = true
		p.granted = append(p.granted, e.ID)
	default:
		d.claim(s.self.owner, e.ID)
		p.changed = true
		p.granted = append(p.granted, e.ID)
	}
}

// compare takes tickets out of the queue that no request of this owner has. Requests that are missing, because this
// owner was presumed dead, wait again in their old places.
func (s *Store) compare(now time.Duration, sc *scope, d *draft, p *progress) {
	there := map[lb.LeaseID]bool{}
	if d.queue != nil {
		d.queue.EachWaiting(s.self.owner, func(id lb.LeaseID) { there[id] = true })
	}
	for id := range there {
		if sc.waiters[id] == nil {
			d.leave(s.self.owner, id)
			p.changed = true
		}
	}
	for id, w := range sc.waiters {
		if _, ended := p.ended[id]; ended || there[id] || slices.Contains(p.granted, id) {
			continue
		}
		s.enqueueAgain(now, sc, d, id, w)
		p.changed = true
	}
}

// enqueueAgain puts a request into the queue whose ticket was lost.
func (s *Store) enqueueAgain(now time.Duration, sc *scope, d *draft, id lb.LeaseID, w *waiter) {
	r := &reservation{id: id, plan: &w.plan, scope: sc}
	w.plan.Wait.Since = w.since
	t, err := sc.locate(d.table, w.plan.List, &s.hashes)
	if err != nil {
		return // the next poll tries again
	}
	d.table = t
	d.begin()
	if list, ok := sc.list(d.queue, &w.plan); ok {
		s.loads = s.loads[:0]
		for _, row := range sc.rows {
			s.loads = append(s.loads, d.loadOf(row))
		}
		d.queue.Add(now, s.ticket(now, d, r, &w.plan.Wait, list, w.matched))
	}
}

// Waits implements [lb.Store].
func (s *Store) Waits(id lb.LeaseID) bool {
	_, ok := s.requests.waiters[id]
	return ok
}

// Queue implements [lb.Store].
func (s *Store) Queue(_ time.Duration, scope string) lb.QueueStats {
	t, err := s.ledger.lookup(scope)
	if err != nil || t == nil || !t.hasQueue() {
		return lb.QueueStats{}
	}
	q, err := queue.Decode(t[t.queueAt():])
	if err != nil {
		return lb.QueueStats{}
	}
	return q.Stats()
}
