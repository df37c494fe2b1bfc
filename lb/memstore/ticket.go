package memstore

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/queue"
)

// What the queue is told of a request that waits.

// ticket returns the ticket of a reservation.
func (s *Store) ticket(
	now time.Duration, d *draft, r *reservation, w *lb.Wait, list int, matched []int,
) *queue.Ticket {
	p := r.plan
	t := &queue.Ticket{Owner: s.self.owner, ID: r.id, Wait: w, List: list, Tokens: p.AddedTokens(0), Wants: queue.NoRow}
	t.Open = d.queue.HasOpen(now, list, t.Tokens, d)
	if !p.HasBudget() { // else capacity becomes free with time, however much is in flight
		t.Inflight = d.requests()
	}
	if row := s.wanted(r, matched); row >= 0 && (d.queue.Patient() < queue.MaxPatient || !t.Open) {
		t.Wants = row
	}
	for i, n := range matched {
		if n > 0 {
			t.AddWarm(queue.Warm{Row: r.scope.rows[i], Saved: t.Tokens - p.AddedTokens(n)})
		}
	}
	return t
}

// wanted returns the row of the full endpoint that the request should rather wait for than take another one, because
// most of its prompt is there: -1 for none.
func (s *Store) wanted(r *reservation, matched []int) int {
	if matched == nil || r.plan.Wait.Patience <= 0 || r.plan.Home.LoadFactor > 0 {
		return -1
	}
	i := lb.Preferred(r.plan, s.loads, matched)
	if i == lb.Full || matched[i] == 0 || !r.plan.Candidates[i].IsFull(s.loads[i]) {
		return -1
	}
	return r.scope.rows[i]
}
