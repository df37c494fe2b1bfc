package core

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/admission"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/regions"
	"github.com/warmgate/warmgate/plugin/views"
)

// headersCame is called once, with end when the request has no body.
func (s *Stream) headersCame(end bool) host.Action {
	pl := s.first
	if steered(pl.gateway.Note()) {
		return s.passDuplicate()
	}
	if a, isCall := s.meetAPI(end); isCall {
		return a
	}
	s.stripClusterHeaders()
	if s.plugin.set == nil {
		return pl.pass(lb.ReasonConfigInvalid)
	}
	if a, answered := s.meetProbe(); answered {
		return a
	}
	pl.region.meet()
	pl.scope = s.match()
	switch {
	case pl.cfg == nil:
		return pl.pass(lb.ReasonNoRule)
	case pl.cfg.Refused:
		return pl.pass(lb.ReasonConfigInvalid)
	case !pl.cfg.Enabled:
		return pl.pass(lb.ReasonDisabled)
	}
	if pl.scope = s.scopeOf(pl.scope); pl.scope == "" {
		return pl.pass(lb.ReasonNoCluster)
	}
	if s.plugin.set.Owns(pl.scope) {
		// a route has sent it there, perhaps because a client named it
		return pl.forbid(lb.ReasonOwnCluster, "")
	}
	s.body.arrived(s.arrived(), end)
	pl.meetCall(end)
	pl.session.find(pl.gateway, &pl.traits, pl.cfg, nil, false)
	if pl.refusal.lacksKey() && pl.session.next == len(pl.cfg.Session) { // else it may come with the body
		return pl.refuseWithoutKey()
	}
	if end || !pl.needsOwnBody() && !pl.needsBodyInside() {
		return pl.decide(0, true, lb.ReasonChosen)
	}
	pl.traits.read(pl.gateway)
	switch {
	case pl.traits.opaque:
		return pl.decide(0, true, lb.ReasonChosen)
	case pl.traits.parts && pl.facts.readsFacts() && !pl.traits.awaits: // for its model, no more
	case pl.traits.encoded && pl.cfg.Unit != lb.Tokens:
		return pl.decide(0, true, lb.ReasonChosen)
	case pl.traits.encoded:
		return pl.decide(0, false, lb.ReasonBodyEncoded)
	case pl.traits.awaits:
		return pl.decide(0, false, lb.ReasonBodyLate)
	}
	pl.enter(phaseReading)
	pl.body.await(pl.planBody())
	return host.Hold
}

// arrived returns the time at which the headers have come: exactly, if the request's deadline counts from it.
func (s *Stream) arrived() time.Duration {
	now := s.plugin.vm.Clock()
	if q := &s.first.cfg.Queue; q.Enabled() && q.DeadlineHeader != "" {
		now = s.plugin.vm.ReadClock()
	}
	s.body.beganAt = now
	return now
}

// match finds the configuration for the request. It returns the cluster if it had to read it.
func (s *Stream) match() (cluster string) {
	set := s.plugin.set
	if !set.HasRules() {
		s.first.cfg = set.Match("", "", "")
		return ""
	}
	cluster = s.gateway.Cluster()
	s.traits.read(s.gateway)
	s.first.cfg = set.Match(s.gateway.Route(), cluster, s.traits.authority)
	return cluster
}

// scopeOf returns the name under which what the request is counted: the cluster's, or that of the clusters of its
// route.
func (s *Stream) scopeOf(cluster string) string {
	pl := s.first
	switch {
	case pl.cfg.AmongClusters() && pl.cfg.Budget() != nil:
		return views.BudgetScope
	case pl.cfg.AmongClusters():
		return views.ClustersScope + s.gateway.Route()
	case pl.cfg.Regions.Enabled():
		return pl.region.homeScope(cluster)
	case cluster == "":
		return s.gateway.Cluster()
	}
	return cluster
}

// stripClusterHeaders removes the headers by which routes take clusters: what a client sends in them never decides,
// whatever becomes of the request. Changing a header has the gateway select the route again.
func (s *Stream) stripClusterHeaders() {
	names := s.plugin.headers
	if set := s.plugin.set; set != nil {
		names = set.ClusterHeaders()
	}
	if len(names) == 0 {
		return
	}
	s.traits.read(s.gateway)
	for _, h := range s.traits.headers {
		if slices.Contains(names, h[0]) {
			s.gateway.SetCluster(h[0], "")
		}
	}
}

// passDuplicate leaves the request to another instance of the plugin, in front of this one, which has counted and
// steered it.
func (s *Stream) passDuplicate() host.Action {
	s.first.enter(phaseUncounted)
	s.first.count(lb.ReasonAlreadyDecided)
	if v := s.plugin.vm; !v.duplicate {
		v.duplicate = true
		v.GW.Log(host.Warn, "the plugin is twice in one filter chain: the second one leaves requests to the first")
	}
	return host.Proceed
}

// meetAPI takes in a request if it is one to the API, or to one of a configuration that is refused.
func (s *Stream) meetAPI(end bool) (_ host.Action, isCall bool) {
	set := s.plugin.set
	if !s.plugin.hasAPI() {
		return host.Proceed, false
	}
	s.traits.read(s.gateway)
	var cfg *config.Config
	var below string
	if set != nil {
		cfg, below = set.API(s.traits.path)
	}
	if cfg == nil && !s.plugin.isRefusedAPI(s.traits.path) {
		return host.Proceed, false
	}
	call := s.plugin.vm.api.NewCall(admission.Request{
		Stream: s.gateway, Context: s.context, Length: s.traits.length, Awaits: s.traits.awaits,
		Value: s.traits.value, Hold: s.body.hold, Release: s.body.release,
	}, cfg)
	s.answer = call
	return call.Meet(below, end), true
}

// meetProbe has the probe of another region answered, if the request is one, and not a stranger's.
func (s *Stream) meetProbe() (a host.Action, answered bool) {
	set, v := s.plugin.set, s.plugin.vm
	if len(set.Regions()) == 0 {
		return host.Proceed, false
	}
	s.traits.read(s.gateway)
	text := s.traits.value(regions.HeaderProbe)
	if text == "" || s.traits.value(":path") != regions.ProbePath {
		return host.Proceed, false
	}
	p := v.regions.NewProbe(s.gateway, s.context, set.RulesOf, func() host.Action {
		return s.first.pass(lb.ReasonPanic)
	})
	s.answer = p
	if a, answered = p.Answer(set.Regions(), text); !answered {
		s.answer = nil
	}
	return a, answered
}
