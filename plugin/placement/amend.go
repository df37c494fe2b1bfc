package placement

import (
	"github.com/warmgate/warmgate/plugin/request"
)

// This file is how the lease of a request follows its body, when that turns out longer or shorter, or stalls.

// BodyTimeout is called when nothing more of the body has come for a second: a client that sends a part and no more
// does not make the endpoint look busy for as long as its connection lasts. Its weight comes back with the end of the
// body.
func (pl *Placement) BodyTimeout() {
	pl.Body.Forget(&pl.Prompt.Work)
	if pl.Phase != PhaseLeased || pl.Response.Streamed {
		return
	}
	plan := &pl.Lease.Reservation.Plan
	plan.Tokens, plan.Prefix.Tokens = request.OpenTokens, 0
	pl.Lease.amend("", request.OpenTokens)
}

// AmendWork is called when the end of the body has come. A lease that was granted before it counts for what has come
// from now on, if that is much more or less. The prefill of a stream that has begun does not count any more.
func (pl *Placement) AmendWork() {
	pl.Body.Forget(&pl.Prompt.Work)
	pl.Response.RequestEnded()
	w := &pl.Prompt.Work
	if !w.Open || pl.Phase != PhaseLeased || pl.Response.Streamed {
		return
	}
	w.Open = false
	size := max(pl.Body.Received, pl.Traits.Length)
	promptTokens, outputTokens := w.Estimate(pl.Config, size)
	plan, cached := &pl.Lease.Reservation.Plan, 0
	plan.Tokens = promptTokens + outputTokens
	if p := pl.Prompt.Chain; p != nil {
		plan.Prefix.Bytes = p.Length + w.Unseen(size)
		if !p.Uncached {
			plan.Prefix.Tokens = promptTokens
		}
	}
	if pl.Lease.Addr == pl.Lease.Chosen {
		cached = pl.Lease.Reservation.Grant.Cached
	}
	pl.Lease.estimatedAgain(plan.Tokens, pl.charge.ofTenant(w.Expected(promptTokens, outputTokens)))
	tokens, before := plan.AddedTokens(cached), pl.Lease.Tokens
	if 4*max(tokens-before, before-tokens) > before {
		pl.Lease.amend("", tokens)
	}
}
