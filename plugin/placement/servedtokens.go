package placement

import (
	"time"

	"github.com/warmgate/warmgate/lb"
)

// In the queue tenants and classes take turns by the tokens that they were served. A request is counted for its
// estimate there when it is granted an endpoint. This file is what corrects that by what it was really served.

// answered notes that an answer to the request's tenant has ended well.
func (w *waiting) answered(now time.Duration) {
	if t := w.tenant; t != 0 {
		w.of.Shared.Waiters.Tenants.Answered(now, t)
	}
}

// sharesTokens reports whether the request has waited where tokens are shared, so that it matters how many it got.
func (w *waiting) sharesTokens() bool { return w.queued && w.of.Config.Unit == lb.Tokens }

// noteServed tells the store how many tokens the request was served, before its lease is released.
func (w *waiting) noteServed() {
	if w.sharesTokens() {
		w.of.Lease.store.NoteServed(w.of.Lease.Reservation.id, w.ServedTokens())
	}
}

// noteUnserved tells the store that no endpoint of the cluster has served the request.
func (w *waiting) noteUnserved() {
	if w.sharesTokens() {
		w.of.Lease.store.NoteServed(w.of.Lease.Reservation.id, 0)
	}
}

// ServedTokens returns how many tokens the request was served: of its prompt those that were not cached, and its
// answer. Without usage that is the estimate of the prompt, and of a stream as many tokens as parts have come: engines
// send each token, or the few that a step yields, as one.
func (w *waiting) ServedTokens() int64 {
	of := w.of
	l, r := &of.Lease, &of.Response
	if unserved, _ := r.Unserved(of.Gateway); unserved {
		return 0
	}
	plan, cached := &l.Reservation.Plan, 0
	if l.Addr == l.Chosen {
		cached = l.Reservation.Grant.Cached
	}
	if r.Answer != nil {
		if u, ok := r.Answer.Usage(r.Complete); ok {
			switch {
			case plan.HasBudget(): // a budget is charged for what is cached, too
				u.Cached = 0
			case u.Cached == 0: // or the server does not report it
				u.Cached = int(float64(u.Prompt) * plan.Prefix.Fraction(cached))
			}
			return int64(max(0, u.Prompt-u.Cached) + u.Output)
		}
	}
	tokens := plan.AddedTokens(cached)
	if of.Prompt.Work.Streamed || r.Streamed {
		tokens += r.Parts - of.Prompt.Work.Output
	}
	return tokens
}
