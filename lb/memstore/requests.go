package memstore

import (
	"cmp"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// requests are those of this owner: those that hold a lease, those that wait, and those that have waited until now.
type requests struct {
	leases   map[lb.LeaseID]lease
	waiters  map[lb.LeaseID]*scope // in which they wait
	finished []finished            // waits that have ended: see answer
	prefixes *prefixIndex
}

// await notes that a request waits, or that it was granted an endpoint as soon as it had entered the queue.
func (rs *requests) await(now time.Duration, d *draft, r *reservation, done func(lb.Grant, error)) {
	w := &waiter{plan: *r.plan, matched: r.matched, since: cmp.Or(r.plan.Wait.Since, now), done: done}
	w.until = w.since + w.plan.Wait.Max
	if len(r.scope.waiters) == 0 || w.until < r.scope.firstOver {
		r.scope.firstOver = w.until
	}
	r.scope.waiters[r.id] = w
	rs.waiters[r.id] = r.scope
	for _, c := range d.claims {
		rs.claimed(r.scope, d, c)
	}
	w.waited = true
}

// claimed makes a request that waited a lease, which the table counts already.
func (rs *requests) claimed(sc *scope, d *draft, c claim) {
	w, ok := sc.waiters[c.id]
	if !ok {
		return // it has just come: see await
	}
	rs.forget(sc, c.id)
	hash := d.hash(c.row)
	g := lb.Grant{Index: -1, Load: d.loadOf(c.row)}
	for i := range w.plan.Candidates {
		if lb.EndpointHash(w.plan.Candidates[i].Addr) == hash {
			g.Index = i
		}
	}
	if g.Index >= 0 && w.matched != nil && w.plan.AddedTokens(w.matched[g.Index]) == c.tokens {
		g.Cached = w.matched[g.Index] // else it is one that the ticket did not name
	}
	if w.plan.HasBudget() {
		state := d.openBudgets().state(c.row)
		g.Left = state.Left()
	}
	rs.leases[c.id] = lease{sc, c.row, c.tokens, g, w.plan.HasBudget(), turnOf(w, c.tokens)}
	rs.finished = append(rs.finished, finished{waiter: w, grant: g})
}

// forget removes a request from those that wait.
func (rs *requests) forget(sc *scope, id lb.LeaseID) {
	delete(sc.waiters, id)
	delete(rs.waiters, id)
}

// end ends the wait of a request, if it waits, without a grant.
func (rs *requests) end(sc *scope, id lb.LeaseID, why error) {
	if w := sc.waiters[id]; w != nil {
		rs.forget(sc, id)
		rs.finished = append(rs.finished, finished{waiter: w, err: why})
	}
}

// uncharge notes that a lease, if there still is one, is not charged in a budget.
func (rs *requests) uncharge(id lb.LeaseID) {
	if l, ok := rs.leases[id]; ok {
		l.charged = false
		rs.leases[id] = l
	}
}

// finished is a wait that has ended.
type finished struct {
	waiter *waiter
	grant  lb.Grant
	err    error
}

// answer calls done for the requests whose wait has ended. It is the last thing that a call of the store does:
// done may call the store again.
func (rs *requests) answer(now time.Duration) {
	for len(rs.finished) > 0 {
		f := rs.finished[0]
		rs.finished = rs.finished[1:]
		if len(rs.finished) == 0 {
			rs.finished = nil
		}
		f.grant.Waited = now - f.waiter.since
		f.grant.Queued = f.grant.Waited > 0
		if p := &f.waiter.plan; f.err == nil && p.Prefix.NeedsLookup() {
			rs.prefixes.recordPrompt(now, &p.Prefix, lb.EndpointTag(p.Candidates[f.grant.Index].Addr))
		}
		f.waiter.done(f.grant, f.err)
	}
}
