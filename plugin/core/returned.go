package core

import (
	"strconv"

	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/response"
	"github.com/warmgate/warmgate/plugin/stats"
)

// What becomes of a request that was forwarded is noted on the board, whoever ends it: a region that fails what it says
// it has room for must not take the requests of this one past their queue.
//
// Such a request may be served at home after all: the gateway's retry, after the other region has failed, goes to this
// region's servers where the cluster of the peer is an aggregate of both. The gateway chooses then, and the request is
// counted where it is served.

// isForwarded reports whether the request was sent to the gateways of another region.
func (f *forwarding) isForwarded() bool { return f.away == toGateways }

// followForwarded is called when the response to a forwarded request has begun. It reports whether it is one of this
// region's own servers that answers.
func (f *forwarding) followForwarded() (returned bool) {
	pl := f.pl
	if !f.isForwarded() || pl.phase != phaseUncounted {
		return false
	}
	served := pl.Gateway.ServedBy()
	pl.response.Status, _ = strconv.Atoi(pl.Gateway.ResponseHeader(":status"))
	pl.response.Reached = served != ""
	switch {
	case f.followHome(served):
		f.forwardEnded(false)
	case pl.response.Reached && pl.response.Status < 400:
		f.forwardEnded(true)
	default:
		f.forwardFailed()
	}
	return f.returned
}

// forwardFailed notes that the other region has failed the request, if that is why it ends like that: what the request
// itself or its client may be to blame for says nothing.
func (f *forwarding) forwardFailed() {
	pl := f.pl
	if !f.isForwarded() || f.ended {
		return
	}
	if pl.response.Status == 0 {
		pl.response.Reached = pl.Gateway.ServedBy() != ""
	}
	switch pl.response.Verdict(pl.shared.Clock(), pl.sentAt(), &pl.Body, pl.Gateway) {
	case lb.Success, lb.Rejected:
		f.forwardEnded(true)
	case lb.Neutral:
		if response.IsUnreachable(pl.Gateway.Details()) {
			f.forwardEnded(false)
		}
	default:
		f.forwardEnded(false)
	}
}

// forwardEnded notes once whether the other region has served the request. If not, it has not got the prompt.
func (f *forwarding) forwardEnded(served bool) {
	if f.ended {
		return
	}
	f.ended = true
	prompt := f.promptToForward()
	f.regions.Of(f.pl.Config).Ended(f.peer, f.sentAt, served, &prompt, f.had)
}

// followHome counts a forwarded request that one of this region's own servers answers. It returns false if none does.
func (f *forwarding) followHome(served string) bool {
	pl := f.pl
	v, r := pl.shared, &pl.lease.reservation
	view := v.GW.KnownView(v.Clock(), pl.Scope, pl.Config)
	if view == nil {
		view = r.view
	}
	if served == "" || !lists(view, served) {
		return false
	}
	r.view = view
	prompt := f.promptToForward()
	pl.countAt(served, &prompt)
	f.returned = true
	v.Stats.CountIf(statname.With(stats.CameHome, "region", f.to), 1)
	return true
}
