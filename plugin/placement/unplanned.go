package placement

import (
	"cmp"

	"github.com/warmgate/warmgate/lb"
)

// A request for which no endpoint is healthy may wait all the same: for another region to have room, or for an endpoint
// to be healthy again, or to be there at all (queue.from_zero). Its plan has no candidates then: so it has its place in
// the queue, and is planned again once there is another view, and from time to time. Should it wait in vain, it is left
// to the gateway, as one that does not wait; but refused as in any queue where the cluster has no endpoint.

// WaitUnplanned has a request for which there is no plan wait for one.
func (pl *Placement) WaitUnplanned() Result {
	l := &pl.Lease
	r := &l.Reservation
	now, wait := l.Now(), r.Plan.Wait
	r.Plan = lb.Plan{
		Scope: pl.Scope, Unit: pl.Config.Unit, Random: r.Request.Random,
		Tokens: cmp.Or(r.Plan.Tokens, r.Request.PromptTokens+r.Request.OutputTokens),
	}
	l.plannedAt = now
	if pl.Phase != PhaseReserving {
		return pl.reserve()
	}
	wait.Since = pl.Wait.Since
	r.Plan.Wait = wait
	return Result{Step: Ready, At: now}
}
