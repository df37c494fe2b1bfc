package forward

import (
	"strconv"

	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/placement"
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
func (f *Forwarding) isForwarded() bool { return f.away == ToGateways }

// Follow is called when the response has begun. It reports whether it is one of this region's own servers that answers
// a request that was forwarded.
func (f *Forwarding) Follow() (returned bool) {
	pl := f.pl
	if !f.isForwarded() || pl.Phase != placement.PhaseUncounted {
		return false
	}
	served := pl.Gateway.ServedBy()
	pl.Response.Status, _ = strconv.Atoi(pl.Gateway.ResponseHeader(":status"))
	pl.Response.Reached = served != ""
	switch {
	case f.followHome(served):
		f.forwardEnded(false)
	case pl.Response.Reached && pl.Response.Status < 400:
		f.forwardEnded(true)
	default:
		if pl.Response.Status == 404 {
			pl.Facts.NoteAbsentIn(f.To)
		}
		f.Failed()
	}
	return f.Returned
}

// Failed is called when a request ends without a good answer. It notes that the other region has failed it, if that is
// why: what the request itself or its client may be to blame for says nothing.
func (f *Forwarding) Failed() {
	pl := f.pl
	if !f.isForwarded() || f.ended {
		return
	}
	if pl.Response.Status == 0 {
		pl.Response.Reached = pl.Gateway.ServedBy() != ""
	}
	switch pl.Response.Verdict(pl.Shared.Clock(), pl.SentAt(), &pl.Body, pl.Gateway) {
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
func (f *Forwarding) forwardEnded(served bool) {
	if f.ended {
		return
	}
	f.ended = true
	prompt := f.promptToForward()
	f.regions.Of(f.pl.Config).Ended(f.peer, f.sentAt, served, &prompt, f.had)
}

// followHome counts a forwarded request that one of this region's own servers answers. It returns false if none does.
func (f *Forwarding) followHome(served string) bool {
	prompt := f.promptToForward()
	if !f.pl.CountIfListed(served, &prompt) {
		return false
	}
	f.Returned = true
	f.pl.Shared.Stats.CountIf(statname.With(stats.CameHome, "region", f.To), 1)
	return true
}
