package core

import (
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/forward"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/measured"
	"github.com/warmgate/warmgate/plugin/request"
)

// A request may have a second choice behind the first: of an endpoint in the cluster that was chosen for it
// (lb_config.endpoint), or of a server of another region whose gateways are gone.

// setNote sets the line for the access log. It has both choices; at the end, what the request was is put behind it.
func (pl *choice) setNote() {
	v := pl.plugin.VM
	line := v.Line[:0]
	if o := pl.outer; o != nil && o.Config.AmongClusters() {
		line = append(o.Wait.AppendText(o.appendTo(line)), ' ')
	}
	line = pl.Wait.AppendText(pl.appendTo(line))
	if c := pl.Config; c != nil && c.Policy != "" {
		line = append(append(line, " policy="...), c.Policy...)
	}
	v.Line, pl.note = line, string(line)
	pl.Gateway.SetNote(line)
	if pl.span.isOn() {
		pl.span.show()
	}
}

// seen is what has come of a request when the outer choice was made, for the inner one.
type seen struct {
	size  int              // of the body
	ended bool             // that is all of it
	late  bool             // more of it was waited for in vain
	body  *request.Content // nil if nothing of it was read
	inner *choice          // that choice, once it has taken what it needs of the body
}

// chooseInside has an endpoint of the chosen cluster chosen, if that is configured.
func (pl *choice) chooseInside() host.Action {
	c := pl.Config.Clusters.Endpoint
	if c == nil || pl.Config.Shadow {
		return host.Proceed
	}
	pl.prepareInside()
	came, in := pl.seen, pl.seen.inner
	pl.inside, pl.seen = in, seen{}
	in.Scope, in.Lease.GrantedAt = pl.Lease.Chosen, pl.Lease.GrantedAt
	if in.Prompt.Chain != nil {
		in.Prompt.Chain.Planned = pl.plugin.VM.Clock()
	}
	return in.enterInside(&came)
}

// prepareInside has the choice inside a cluster take what it needs of the body, which is dropped: a request may wait
// for its cluster. Only the names of keys of prompts are then not those of the cluster, but of all of the route.
func (pl *choice) prepareInside() {
	c := pl.Config.Clusters.Endpoint
	if c == nil || pl.Config.Shadow || pl.seen.inner != nil {
		return
	}
	in := newChoice(pl.stream, pl, c, pl.Scope)
	in.Within = &pl.Lease.Addr
	in.Kept.TakeOver(&pl.Kept)
	pl.seen.inner = in
	b := pl.seen.body
	if b == nil {
		return
	}
	in.Find(b.Text, true)
	if b.Err == nil {
		in.Inspected(b)
	}
	b.Text = nil
}

// enterInside decides inside a cluster, by what has come of the request.
func (pl *choice) enterInside(seen *seen) host.Action {
	if pl.plugin.Set != nil && pl.plugin.Set.Owns(pl.Scope) {
		return pl.forbid(lb.ReasonOwnCluster, "")
	}
	reason := pl.readingOf(seen)
	ended := seen.ended && (reason != lb.ReasonBodyEncoded || pl.Body.EndedAt > 0)
	return pl.decide(seen.size, ended, reason)
}

// readingOf returns the reason to count when an endpoint is chosen, by what could be read of the body.
func (pl *choice) readingOf(seen *seen) lb.Reason {
	switch {
	case pl.Config.Unit != lb.Tokens || pl.Traits.Opaque || !pl.Computes():
		return lb.ReasonChosen
	case seen.body != nil:
		return request.ReadingReason(seen.body.Err, seen.late)
	case pl.Traits.Encoded:
		return lb.ReasonBodyEncoded
	case seen.ended:
		return lb.ReasonChosen
	}
	return lb.ReasonBodyLate
}

// leave has a request go on that other regions may have room for, to where that is. It reports whether it leaves.
func (pl *choice) leave(away forward.Leaving) (a host.Action, left bool) {
	switch away {
	case forward.ToGateways:
		setRank(pl.Gateway, pl.Config, "") // which it is to be, the other region says
		pl.Response.SentAt = pl.plugin.VM.GW.Now()
		pl.Wait.CountPlaced()
		pl.decided(lb.ReasonForwarded)
		return host.Proceed, true
	case forward.ToServers:
		return pl.adopt(), true
	}
	return host.Stop, false
}

// adopt has an adopted server chosen for the request, which is routed there by now.
func (pl *choice) adopt() host.Action {
	reason := pl.Lease.Reservation.Reason
	if reason == lb.ReasonChosen {
		reason = lb.ReasonAdopted
	}
	in := newChoice(pl.stream, pl, pl.Config, pl.region.Servers())
	pl.inside, in.Within = in, &in.Scope // the gateway may go on reporting the cluster to which the route led at first
	in.TakeTexts(&pl.Subject)
	in.Facts.Model, in.Metrics.Model, in.Prompt.Model = pl.Facts.Model, pl.Metrics.Model, pl.Prompt.Model
	in.Kept.TakeOver(&pl.Kept)
	in.region.JoinServers(&pl.region)
	of := &pl.Prompt.Work
	in.Prompt.Work = request.Work{Info: of.Info, Seen: of.Seen, Text: of.Text, Model: of.Model}
	in.WaitedAs(&pl.Placement)
	if pl.Prompt.Chain != nil {
		chain := *pl.Prompt.Chain
		in.Prompt.Chain = &chain
	}
	pl.reason, pl.settled = lb.ReasonAdopted, true // it is counted where the server is chosen
	return in.decide(max(pl.seen.size, pl.Body.Received), pl.seen.ended || pl.Body.EndedAt > 0, reason)
}

// leaveAdopted brings a request back for which an adopted cluster has nothing any more. It is reserved at home again,
// as of when it came: where nothing was open, it must not pass those that wait, nor the caps. Whatever else keeps the
// plugin from choosing there, the gateway balances in the adopted cluster.
func (pl *choice) leaveAdopted() host.Action {
	o := pl.outer
	o.inside, o.settled, pl.settled = nil, false, true // it is counted at home
	pl.end()
	o.region.ComeHome()
	return o.act(o.TakeUp(&pl.Placement))
}

// addWaits adds to m how long the request has waited for the choices that this one is inside of.
func (pl *choice) addWaits(m *measured.Request) {
	for in := pl; in.outer != nil; in = in.outer {
		if !in.isAdopted() { // else it has taken over how long the other one has waited
			in.outer.serving.AddWait(m)
		}
	}
}

// isAdopted reports whether this is the choice of an adopted server.
func (pl *choice) isAdopted() bool { return pl.outer != nil && pl.region.IsAway() }
