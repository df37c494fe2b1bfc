package memstore

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
	"github.com/warmgate/warmgate/lb/queue"
)

// enqueue puts the request into the queue, unless it may not wait there. If an endpoint that it may use is open and
// its turn has come, it is claimed at once.
func (pl *placer) enqueue(now time.Duration, d *draft, r *reservation, matched []int) error {
	d.begin()
	d.asking = r
	pl.self.showLife(now)
	if r.scope.left { // a ticket with this id may be in the queue still
		d.leave(pl.self.owner, r.id)
	}
	w := r.plan.Wait
	isNew := w.Since == 0
	if isNew {
		w.Since = now
	}
	list, ok := r.scope.list(d.queue, r.plan)
	if !ok {
		return lb.ErrQueueFull
	}
	ticket := pl.ticket(now, d, r, &w, list, matched)
	if isNew && !ticket.Open && pl.admit(now, d, r, ticket) != nil {
		return r.refused
	}
	d.queue.Add(now, ticket)
	r.waits, r.matched = true, slices.Clone(matched)
	if !ticket.Open {
		return nil
	}
	d.dispatch(now, pl.self.owner)
	if was, _, _ := d.queue.Find(pl.self.owner, r.id); was != queue.Waiting || !isNew {
		return nil
	}
	d.leave(pl.self.owner, r.id)
	// The dispatch may have granted to others what was open.
	ticket.Open = !r.plan.HasBudget() && d.queue.HasOpen(now, list, ticket.Tokens, d)
	if pl.admit(now, d, r, ticket) != nil {
		r.waits = false
		return nil // others may have been granted something
	}
	d.queue.Add(now, ticket)
	return nil
}

// admit decides whether the request may wait. When it would be placed the queue may not know, but its budget does.
func (pl *placer) admit(now time.Duration, d *draft, r *reservation, t *queue.Ticket) error {
	if r.expected, r.refused = d.queue.Admit(now, t); r.refused != nil && r.expected == 0 && r.plan.HasBudget() {
		ts, _, _ := pl.targets(now, d, r, budget.MaxRefusals)
		r.expect(ts)
	}
	return r.refused
}

// replace takes the ticket out of the queue in whose place the request comes. If that was evicted, so is the request.
func (pl *placer) replace(d *draft, r *reservation) {
	old := r.plan.Wait.Instead
	if old == 0 {
		return
	}
	if was, _, _ := d.leave(pl.self.owner, old); was == queue.Evicted {
		r.refused = lb.ErrQueueFull
	}
}

// ticket returns the ticket of a reservation.
func (pl *placer) ticket(
	now time.Duration, d *draft, r *reservation, w *lb.Wait, list int, matched []int,
) *queue.Ticket {
	p := r.plan
	t := &queue.Ticket{
		Owner: pl.self.owner, ID: r.id, Wait: w, List: list, Tokens: p.AddedTokens(0), Wants: queue.NoRow,
	}
	t.Open = d.queue.HasOpen(now, list, t.Tokens, d)
	if !p.HasBudget() { // else capacity becomes free with time, however much is in flight
		t.Inflight = d.requests()
	}
	if row, patience := pl.wanted(r, matched); row >= 0 && (d.queue.Patient() < queue.MaxPatient || !t.Open) {
		t.Wants, t.Patience = row, patience
	}
	for i, n := range matched {
		if n > 0 {
			t.AddWarm(queue.Warm{Row: r.scope.rows[i], Saved: t.Tokens - p.AddedTokens(n)})
		}
	}
	return t
}

// wanted returns the row of the full endpoint that the request should rather wait for than take another one, because
// most of its prompt is there, and for how long: -1 for none.
func (pl *placer) wanted(r *reservation, matched []int) (row int, patience time.Duration) {
	if matched == nil || r.plan.Wait.Patience <= 0 || r.plan.Home.LoadFactor > 0 {
		return -1, 0
	}
	i := lb.Preferred(r.plan, pl.loads, matched)
	if i == lb.Full || matched[i] == 0 || !r.plan.Candidates[i].IsFull(pl.loads[i]) {
		return -1, 0
	}
	isOpen := false
	for c, l := range pl.loads {
		isOpen = isOpen || !r.plan.Candidates[c].IsFull(l)
	}
	if patience = r.plan.Patience(matched[i], isOpen); patience == 0 {
		return -1, 0
	}
	return r.scope.rows[i], patience
}

// isPatient reports whether there is such an endpoint.
func (pl *placer) isPatient(r *reservation, matched []int) bool {
	row, _ := pl.wanted(r, matched)
	return row >= 0
}

// enqueueAgain puts a request into the queue whose ticket was lost.
func (pl *placer) enqueueAgain(now time.Duration, sc *scope, d *draft, id lb.LeaseID, w *waiter) {
	r := &reservation{id: id, plan: &w.plan, scope: sc}
	w.plan.Wait.Since = w.since
	t, err := sc.locate(d.table, w.plan.List, &pl.hashes)
	if err != nil {
		return // the next poll tries again
	}
	d.table = t
	d.begin()
	if list, ok := sc.list(d.queue, &w.plan); ok {
		pl.readLoads(d, sc)
		d.queue.Add(now, pl.ticket(now, d, r, &w.plan.Wait, list, w.matched))
	}
}
