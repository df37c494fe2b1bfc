package request

import (
	"slices"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/clusters"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/learned"
)

// Subject is a request as one choice sees it: under which configuration and for which cluster it is, and what is read
// of it for that.
type Subject struct {
	*Request
	env      *host.Env
	clusters clusters.Known
	prompts  *Prompts

	Config  *config.Config
	Scope   string            // name of the cluster
	Cluster *clusters.Cluster // nil before it is looked up

	Pattern learned.CallPattern // of a call that no table lists
	Session Session             // that it belongs to
	Hints   Hints               // what it says of itself
	Prompt  Prompt              // its prompt, and how much work that is
	Kept    Kept                // what it has to do with what engines keep
	Facts   Facts               // what it has to do with facts about models
	Metrics Metrics             // what it has to do with the metrics of engines
	Noted   Noted               // what is kept of a trial's body
}

// Init makes it the subject of a request in a VM. It must not be copied from then on: its parts know it.
func (s *Subject) Init(r *Request, e *host.Env, known clusters.Known, p *Prompts) {
	s.Request, s.env, s.clusters, s.prompts = r, e, known, p
	s.Prompt.of, s.Kept.of, s.Facts.of = s, s, s
}

// known returns what is known of the cluster, nil for nothing.
func (s *Subject) known() *clusters.Cluster { return s.clusters[s.Scope] }

// MeetCall finds out what the call makes an engine do. bodiless is whether it has no body.
func (s *Subject) MeetCall(bodiless bool) {
	s.Traits.Read(s.Gateway)
	method := s.Traits.Value(":method")
	s.What, s.Pattern = callOf(method, s.Traits.Path, bodiless, s.known())
	s.Kept.meet(method)
	s.Facts.meet()
}

// NeedsOwnBody reports whether the body decides this choice, and not one inside the chosen cluster: how long it is,
// which adapter it is for, or which session it belongs to; or what it costs.
func (s *Subject) NeedsOwnBody() bool { return s.needsMore() || s.Facts.NeedsBody() || s.isPriced() }

// isPriced reports whether its model has to be known for what it costs.
func (s *Subject) isPriced() bool {
	c := s.Config
	return c.Prices.ByModel() && c.Telemetry.Enabled && s.MayNameModel()
}

// needsMore reports whether it decides this choice by more than facts about its model.
func (s *Subject) needsMore() bool {
	switch {
	case s.needsText():
		return true
	case !s.Computes():
		return false
	case s.Config.Unit == lb.Tokens || s.Config.Queue.ByTurn():
		return true
	case !s.Config.ReadsModel():
		return false
	}
	cl := s.known()
	return cl != nil && cl.Engines.HasAdapters()
}

// needsText reports whether a member of the body decides it that says nothing of its work.
func (s *Subject) needsText() bool {
	return s.Session.mayBeInBody(&s.Traits, s.Config) || s.hintsMayBeInBody(&s.Hints, s.Config) ||
		s.Kept.inBody && !s.Traits.notJSON
}

// hintsMayBeInBody reports whether the body has to be read for a hint: not of what computes nothing.
func (s *Subject) hintsMayBeInBody(h *Hints, c *config.Config) bool {
	return !s.Idle() && h.mayBeInBody(&s.Traits, c)
}

// Find looks for the key of its session and for what it says of itself, in the order of the configuration's places, up
// to the first one that has each. While the body may still come, it stops in front of a place there. Without a body,
// body is nil.
func (s *Subject) Find(body []byte, complete bool) {
	s.Session.find(s.Gateway, &s.Traits, s.Config, body, complete)
	s.Hints.find(s.Gateway, &s.Traits, s.Config, body, complete)
}

// TakeTexts takes over what was found for another choice of the request under the same configuration.
func (s *Subject) TakeTexts(of *Subject) {
	s.Session.Key, s.Session.lookup, s.Hints = of.Session.Key, of.Session.lookup, of.Hints
}

// NeedsBodyInside reports whether the choice inside a cluster reads the body. It is read before a cluster is chosen:
// afterwards, with counts in Redis, it could not be held any more.
func (s *Subject) NeedsBodyInside() bool {
	c := s.Config.Clusters.Endpoint
	switch {
	case c == nil:
		return false
	case !s.Computes():
	case c.Unit == lb.Tokens:
		return true
	}
	inside := Subject{Request: s.Request, Config: c}
	if inside.Find(nil, false); inside.Session.mayBeInBody(&s.Traits, c) || s.hintsMayBeInBody(&inside.Hints, c) {
		return true
	}
	switch {
	case s.Idle():
		return false
	case c.NeedsModel():
		return true
	}
	known, now := s.clusters, s.env.Clock()
	return slices.ContainsFunc(s.Config.Clusters.List, func(name string) bool {
		cl := known[name]
		if cl == nil {
			return c.ReadsModelLists()
		}
		return c.ReadsModel() && cl.Engines.HasAdapters() ||
			c.ReadsModelLists() && (cl.Metrics.ListsUnread(now, c) || cl.Facts.Active(now))
	})
}

// LacksKey reports whether cluster_hash is to choose by a key that was not found so far.
func (s *Subject) LacksKey() bool {
	return s.Config.Clusters.Hashed && s.Session.Key == 0 && !s.Config.Shadow
}

// KeyMayCome reports whether the body may still have the key of its session.
func (s *Subject) KeyMayCome() bool { return s.Session.lookup.Next < len(s.Config.Session) }

// PlanBody returns what is to be read of the body.
func (s *Subject) PlanBody() BodyPlan {
	c, in := s.Config, s.Config.Clusters.Endpoint
	p := BodyPlan{
		atOnce: c.MaxInspectBytes, names: c.ReadsPrompt() || in != nil, timeout: c.BodyTimeout, keys: c,
		ModelOnly: !s.needsMore() && !s.NeedsBodyInside(),
	}
	p.end = !s.Traits.Multipart && (c.ReadsPrompt() || c.ReadsModel() || s.needsText() || s.Facts.NeedsBody() ||
		s.isPriced() || in != nil && (in.ReadsPrompt() || in.ReadsModel() || in.ReadsSession() ||
		readsHints(in)))
	most := c.MaxScanBytes
	if in != nil {
		p.atOnce, p.keys = max(p.atOnce, in.MaxInspectBytes), in
		most = max(most, in.MaxScanBytes)
	}
	if p.most = p.atOnce; p.end {
		p.most = max(p.most, most)
	}
	return p
}

// Class returns the class of the request, nil where no queue is configured: the one that its header names, else that of
// its priority, else that of its turn. If nothing of it is read, it is as if it began a conversation.
func (s *Subject) Class() *config.Class {
	q := &s.Config.Queue
	if !q.Enabled() {
		return nil
	}
	name := s.Traits.Value(q.ClassHeader)
	if class := q.AtPriority(s.Hints.priority.Text); class != nil && !q.Has(name) {
		return class
	}
	return q.TurnClass(name, s.Prompt.Work.Info.Answered)
}

// classID returns the same number for all requests of one class, 0 where there is one class only.
func (s *Subject) classID() uint16 {
	if class := s.Class(); class != nil && len(s.Config.Queue.Classes) > 1 {
		return class.ID
	}
	return 0
}

// NeedsPrompt reports whether more of the body matters than which session it is of.
func (s *Subject) NeedsPrompt() bool {
	c := s.Config
	if !s.Computes() {
		return s.What == prompt.Quiet && c.Clusters.Endpoint != nil // for its model, inside
	}
	return c.Unit == lb.Tokens || c.Queue.ByTurn() || c.ReadsModel() || c.Clusters.Endpoint != nil ||
		c.Prices.ByModel() || c.Scrapes(s.env.Kind) || c.Engines.ORCA
}

// Inspected takes over what is known of a body that could be read.
func (s *Subject) Inspected(b *Content) {
	s.Prompt.inspected(b)
	if s.Config.Scrapes(s.env.Kind) || s.Config.Engines.ORCA {
		s.Metrics.Model = s.Prompt.Model
	}
}
