package core

import (
	"errors"
	"slices"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
)

// A request that is sent to one of several clusters may have its endpoint in it chosen as well (lb_config.endpoint).
// Each of the two choices is a Stream: the inner one begins when the outer one has chosen, and is called back for the
// same events, behind it. So each has its plan, its lease and its place in a queue, and gives them back by itself,
// whatever ends the request.

// Cluster returns the cluster that the request is routed to: inside a choice the one that was chosen, or that has
// served in its place.
func (s *Stream) Cluster() string {
	switch {
	case s.outer == nil:
		return s.GatewayStream.Cluster()
	case s.outer.cfg.AmongClusters():
		return s.outer.lease.addr
	}
	return s.scope // adopted: the gateway may go on reporting the cluster to which the route led at first
}

// SetNote sets the text for the access log. It has both choices.
func (s *Stream) SetNote(text string) {
	if s.outer != nil && s.outer.cfg.AmongClusters() {
		text = s.outer.describe() + s.outer.wait.text() + " " + text
	}
	s.GatewayStream.SetNote(text)
}

// seen is what has come of a request when the outer choice was made, for the inner one.
type seen struct {
	size  int       // of the body
	ended bool      // that is all of it
	late  bool      // more of it was waited for in vain
	body  *readBody // nil if nothing of it was read
	inner *Stream   // that choice, once it has taken what it needs of the body
}

// readBody is what was read of a body.
type readBody struct {
	text    []byte       // as much of it as was read, until the inner choice has taken what it needs
	info    prompt.Info  // what that contains
	parts   prompt.Parts // where
	whole   bool         // all of it is in text, or all but what no model reads
	long    bool         // text is what was kept of a longer body
	skipped int          // bytes of that which no model reads, and which were not kept
	ended   bool         // every name in it that keys of prompts depend on is known
	unread  string       // why not, "" if they are
	err     error        // why it cannot be read
}

// isWhole reports whether all of a body of that size was read.
func (b *readBody) isWhole(size int) bool { return b.long && b.whole || !b.long && size <= len(b.text) }

// needsBodyInside reports whether the choice inside a cluster reads the body. It is read before a cluster is chosen:
// afterwards, with counts in Redis, it could not be held any more.
func (s *Stream) needsBodyInside() bool {
	c := s.cfg.Clusters.Endpoint
	switch {
	case c == nil:
		return false
	case !s.computes():
	case c.Unit == lb.Tokens:
		return true
	}
	var ss session
	if ss.find(s, c, nil, false); ss.mayBeInBody(s, c) {
		return true
	}
	if s.idle() {
		return false
	}
	known, now := s.plugin.vm.clusters, s.plugin.vm.now()
	return slices.ContainsFunc(s.cfg.Clusters.List, func(name string) bool {
		cl := known[name]
		if cl == nil {
			return c.ReadsModelLists()
		}
		return c.ReadsModel() && cl.engines.HasAdapters() ||
			c.ReadsModelLists() && (cl.lists.unread(now, c) || cl.facts.Active(now))
	})
}

// inspectBytes returns how much of the body is read for the decision.
func (s *Stream) inspectBytes() int {
	if c := s.cfg.Clusters.Endpoint; c != nil {
		return max(s.cfg.MaxInspectBytes, c.MaxInspectBytes)
	}
	return s.cfg.MaxInspectBytes
}

// chooseInside has an endpoint of the chosen cluster chosen, if that is configured.
func (s *Stream) chooseInside() Action {
	c := s.cfg.Clusters.Endpoint
	if c == nil || s.cfg.Shadow {
		return Proceed
	}
	s.prepareInside()
	came, in := s.seen, s.seen.inner
	s.inside, s.seen = in, seen{}
	in.scope, in.body = s.lease.chosen, s.body
	if in.chain != nil {
		in.chain.planned = s.plugin.vm.now()
	}
	return in.begin(&came)
}

// prepareInside has the choice inside a cluster take what it needs of the body, which is dropped: a request may wait
// for its cluster. Only the names of keys of prompts are then not those of the cluster, but of all of the route.
func (s *Stream) prepareInside() {
	c := s.cfg.Clusters.Endpoint
	if c == nil || s.cfg.Shadow || s.seen.inner != nil {
		return
	}
	in := &Stream{
		GatewayStream: s.GatewayStream, outer: s, context: s.context, plugin: s.plugin, cfg: c,
		scope: s.scope, traits: s.traits, what: s.what, held: s.held, lease: lease{vm: s.plugin.vm},
	}
	s.seen.inner = in
	b := s.seen.body
	if b == nil {
		return
	}
	in.session.find(in, c, b.text, true)
	if b.err == nil {
		in.inspected(b)
	}
	b.text = nil
}

// begin decides inside a cluster, by what has come of the request.
func (s *Stream) begin(seen *seen) Action {
	if s.plugin.set != nil && s.plugin.set.Owns(s.scope) {
		return s.refuseOwnCluster()
	}
	reason := s.readingOf(seen)
	ended := seen.ended && (reason != lb.ReasonBodyEncoded || s.body.endedAt > 0)
	return s.decide(seen.size, ended, reason)
}

// readingOf returns the reason to count when an endpoint is chosen, by what could be read of the body.
func (s *Stream) readingOf(seen *seen) lb.Reason {
	switch {
	case s.cfg.Unit != lb.Tokens || s.traits.opaque || !s.computes():
		return lb.ReasonChosen
	case seen.body != nil:
		return readingReason(seen.body.err, seen.late)
	case s.traits.encoded:
		return lb.ReasonBodyEncoded
	case seen.ended:
		return lb.ReasonChosen
	}
	return lb.ReasonBodyLate
}

// readingReason returns the reason to count when an endpoint is chosen for a request whose body was read for its work,
// or could not be. late: more of it was waited for in vain.
func readingReason(err error, late bool) lb.Reason {
	switch {
	case errors.Is(err, prompt.ErrAmbiguous):
		return lb.ReasonBodyAmbiguous
	case err != nil:
		return lb.ReasonBodyMalformed
	case late:
		return lb.ReasonBodyLate
	}
	return lb.ReasonChosen
}
