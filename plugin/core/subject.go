package core

import (
	"slices"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/clusters"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/learned"
)

// subject is a request as one choice sees it: under which configuration and for which cluster it is, and what is read
// of it for that.
type subject struct {
	*request
	env      *host.Env
	clusters clusters.Known
	prompts  *prompts

	cfg     *config.Config
	scope   string            // name of the cluster
	cluster *clusters.Cluster // nil before it is looked up

	pattern learned.CallPattern // of a call that no table lists
	session session             // that it belongs to
	prompt  promptUse           // its prompt, and how much work that is
	held    heldUse             // what it has to do with what engines keep
	facts   factUse             // what it has to do with facts about models
	metrics metricsUse          // what it has to do with the metrics of engines
}

// init makes it the subject of a request in a VM. It must not be copied from then on: its parts know it.
func (s *subject) init(r *request, e *host.Env, known clusters.Known, p *prompts) {
	s.request, s.env, s.clusters, s.prompts = r, e, known, p
	s.prompt.of, s.held.of, s.facts.of = s, s, s
}

// known returns what is known of the cluster, nil for nothing.
func (s *subject) known() *clusters.Cluster { return s.clusters[s.scope] }

// meetCall finds out what the call makes an engine do. bodiless is whether it has no body.
func (s *subject) meetCall(bodiless bool) {
	s.traits.read(s.gateway)
	method := s.traits.value(":method")
	s.what, s.pattern = callOf(method, s.traits.path, bodiless, s.known())
	s.held.meet(method)
	s.facts.meet()
}

// needsOwnBody reports whether the body decides this choice, and not one inside the chosen cluster: how long it is,
// which adapter it is for, or which session it belongs to.
func (s *subject) needsOwnBody() bool { return s.needsMore() || s.facts.readsFacts() }

// needsMore reports whether it decides this choice by more than facts about its model.
func (s *subject) needsMore() bool {
	switch {
	case s.needsText():
		return true
	case !s.computes():
		return false
	case s.cfg.Unit == lb.Tokens:
		return true
	case !s.cfg.ReadsModel():
		return false
	}
	cl := s.known()
	return cl != nil && cl.Engines.HasAdapters()
}

// needsText reports whether a member of the body decides it that says nothing of its work.
func (s *subject) needsText() bool {
	return s.session.mayBeInBody(&s.traits, s.cfg) || s.held.inBody && !s.traits.notJSON
}

// needsBodyInside reports whether the choice inside a cluster reads the body. It is read before a cluster is chosen:
// afterwards, with counts in Redis, it could not be held any more.
func (s *subject) needsBodyInside() bool {
	c := s.cfg.Clusters.Endpoint
	switch {
	case c == nil:
		return false
	case !s.computes():
	case c.Unit == lb.Tokens:
		return true
	}
	var ss session
	if ss.find(s.gateway, &s.traits, c, nil, false); ss.mayBeInBody(&s.traits, c) {
		return true
	}
	if s.idle() {
		return false
	}
	known, now := s.clusters, s.env.Clock()
	return slices.ContainsFunc(s.cfg.Clusters.List, func(name string) bool {
		cl := known[name]
		if cl == nil {
			return c.ReadsModelLists()
		}
		return c.ReadsModel() && cl.Engines.HasAdapters() ||
			c.ReadsModelLists() && (cl.Metrics.ListsUnread(now, c) || cl.Facts.Active(now))
	})
}

// planBody returns what is to be read of the body.
func (s *subject) planBody() bodyPlan {
	c, in := s.cfg, s.cfg.Clusters.Endpoint
	p := bodyPlan{
		atOnce: c.MaxInspectBytes, names: c.ReadsPrompt() || in != nil, timeout: c.BodyTimeout, keys: c,
		modelOnly: !s.needsMore() && !s.needsBodyInside(),
	}
	p.end = !s.traits.parts && (c.ReadsPrompt() || c.ReadsModel() || s.needsText() || s.facts.readsFacts() ||
		in != nil && (in.ReadsPrompt() || in.ReadsModel() || in.ReadsSession()))
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

// needsPrompt reports whether more of the body matters than which session it is of.
func (s *subject) needsPrompt() bool {
	c := s.cfg
	if !s.computes() {
		return s.what == prompt.Quiet && c.Clusters.Endpoint != nil // for its model, inside
	}
	return c.Unit == lb.Tokens || c.ReadsModel() || c.Clusters.Endpoint != nil ||
		c.Scrapes(s.env.Kind) || c.Engines.ORCA
}

// inspected takes over what is known of a body that could be read.
func (s *subject) inspected(b *readBody) {
	s.prompt.inspected(b)
	if s.cfg.Scrapes(s.env.Kind) || s.cfg.Engines.ORCA {
		s.metrics.model = b.parts.ModelName(b.text)
	}
}
