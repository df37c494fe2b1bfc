package core

import (
	"slices"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/request"
)

// A request that is sent to one of several clusters may have its endpoint in it chosen as well (lb_config.endpoint):
// the inner placement begins when the outer one has chosen.

// routedTo returns the cluster that the request is routed to: inside a choice the one that was chosen, or that has
// served in its place.
func (pl *choice) routedTo() string {
	switch {
	case pl.outer == nil:
		return pl.Gateway.Cluster()
	case pl.outer.Config.AmongClusters():
		return pl.outer.lease.addr
	}
	return pl.Scope // adopted: the gateway may go on reporting the cluster to which the route led at first
}

// SetNote sets the text for the access log. It has both choices.
func (pl *choice) SetNote(text string) {
	if pl.outer != nil && pl.outer.Config.AmongClusters() {
		text = pl.outer.debug.describe() + pl.outer.wait.text() + " " + text
	}
	pl.Gateway.SetNote(text)
}

// seen is what has come of a request when the outer choice was made, for the inner one.
type seen struct {
	size  int              // of the body
	ended bool             // that is all of it
	late  bool             // more of it was waited for in vain
	body  *request.Content // nil if nothing of it was read
	inner *choice          // that choice, once it has taken what it needs of the body
}

// nesting is the choice of an endpoint in the cluster that was chosen.
type nesting struct{ pl *choice }

// needsBodyInside reports whether the choice inside a cluster reads the body. It is read before a cluster is chosen:
// afterwards, with counts in Redis, it could not be held any more.
func (n *nesting) needsBodyInside() bool {
	pl := n.pl
	c := pl.Config.Clusters.Endpoint
	switch {
	case c == nil:
		return false
	case !pl.Computes():
	case c.Unit == lb.Tokens:
		return true
	}
	var ss request.Session
	if ss.Find(pl.Gateway, &pl.Traits, c, nil, false); ss.MayBeInBody(&pl.Traits, c) {
		return true
	}
	if pl.Idle() {
		return false
	}
	known, now := pl.plugin.vm.clusters, pl.plugin.vm.Clock()
	return slices.ContainsFunc(pl.Config.Clusters.List, func(name string) bool {
		cl := known[name]
		if cl == nil {
			return c.ReadsModelLists()
		}
		return c.ReadsModel() && cl.Engines.HasAdapters() ||
			c.ReadsModelLists() && (cl.Metrics.ListsUnread(now, c) || cl.Facts.Active(now))
	})
}

// chooseInside has an endpoint of the chosen cluster chosen, if that is configured.
func (n *nesting) chooseInside() host.Action {
	pl := n.pl
	c := pl.Config.Clusters.Endpoint
	if c == nil || pl.Config.Shadow {
		return host.Proceed
	}
	n.prepareInside()
	came, in := pl.seen, pl.seen.inner
	pl.inside, pl.seen = in, seen{}
	in.Scope, in.lease.grantedAt = pl.lease.chosen, pl.lease.grantedAt
	if in.Prompt.Chain != nil {
		in.Prompt.Chain.Planned = pl.plugin.vm.Clock()
	}
	return in.begin(&came)
}

// prepareInside has the choice inside a cluster take what it needs of the body, which is dropped: a request may wait
// for its cluster. Only the names of keys of prompts are then not those of the cluster, but of all of the route.
func (n *nesting) prepareInside() {
	pl := n.pl
	c := pl.Config.Clusters.Endpoint
	if c == nil || pl.Config.Shadow || pl.seen.inner != nil {
		return
	}
	in := newChoice(pl.stream, pl, c, pl.Scope)
	in.State.TakeOver(&pl.State)
	pl.seen.inner = in
	b := pl.seen.body
	if b == nil {
		return
	}
	in.Session.Find(in.Gateway, &in.Traits, c, b.Text, true)
	if b.Err == nil {
		in.Inspected(b)
	}
	b.Text = nil
}

// begin decides inside a cluster, by what has come of the request.
func (pl *choice) begin(seen *seen) host.Action {
	if pl.plugin.set != nil && pl.plugin.set.Owns(pl.Scope) {
		return pl.refusal.forbid(lb.ReasonOwnCluster, "")
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
