package core

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/internal/state"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/apicall"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/placement"
	"github.com/warmgate/warmgate/plugin/regions"
	"github.com/warmgate/warmgate/plugin/views"
)

// This file is how a request arrives: what is answered in an endpoint's place, or left to the gateway, and by which
// configuration the others are placed.

// headersCame is called once, with end when the request has no body.
func (s *Stream) headersCame(end bool) host.Action {
	pl := s.first
	if steered(pl.Gateway.Note()) {
		return s.passDuplicate()
	}
	if a, isCall := s.meetAPI(end); isCall {
		return a
	}
	s.stripClusterHeaders()
	if a, isProbe := s.meetProbe(end); isProbe {
		return a
	}
	if s.plugin.Set == nil {
		return pl.pass(lb.ReasonConfigInvalid)
	}
	pl.region.Meet(s.plugin.Set)
	pl.Scope = s.match()
	switch {
	case pl.Config == nil:
		return pl.pass(lb.ReasonNoRule)
	case pl.Config.Refused:
		return pl.pass(lb.ReasonConfigInvalid)
	case !pl.Config.Enabled, pl.Config.API.Only:
		return pl.pass(lb.ReasonDisabled)
	}
	now := s.arrived()
	if pl.Scope = s.scopeOf(pl.Scope); pl.Scope == "" {
		return pl.pass(lb.ReasonNoCluster)
	}
	if s.plugin.Set.Owns(pl.Scope) {
		// a route has sent it there, perhaps because a client named it
		return pl.forbid(lb.ReasonOwnCluster, "")
	}
	s.Body.Arrived(now, end)
	pl.MeetCall(end)
	pl.Find(nil, false)
	if pl.LacksKey() && !pl.KeyMayCome() {
		return pl.refuseWithoutKey()
	}
	if end || !pl.NeedsOwnBody() && !pl.NeedsBodyInside() {
		return pl.decide(0, true, lb.ReasonChosen)
	}
	pl.Traits.Read(pl.Gateway)
	switch {
	case pl.Traits.Opaque:
		return pl.decide(0, true, lb.ReasonChosen)
	case pl.Traits.Multipart && pl.Facts.NeedsBody() && !pl.Traits.Awaits: // for its model, no more
	case pl.Traits.Encoded && pl.Config.Unit != lb.Tokens:
		return pl.decide(0, true, lb.ReasonChosen)
	case pl.Traits.Encoded:
		return pl.decide(0, false, lb.ReasonBodyEncoded)
	case pl.Traits.Awaits:
		return pl.decide(0, false, lb.ReasonBodyLate)
	}
	pl.Enter(placement.PhaseReading)
	pl.Body.Await(pl.PlanBody())
	return host.Hold
}

// arrived returns the time at which the headers have come: exactly, if the request is measured, its deadline counts
// from it, or somebody watches.
func (s *Stream) arrived() time.Duration {
	now := s.plugin.VM.Clock()
	c := s.first.Config
	q := &c.Queue
	if c.Telemetry.Enabled || q.Enabled() && q.DeadlineHeader != "" || s.plugin.VM.Inspector.Decisions.Watched(now) {
		now = s.plugin.VM.ReadClock()
	}
	s.Body.BeganAt = now
	return now
}

// match finds the configuration for the request. It returns the cluster if it had to read it.
func (s *Stream) match() (cluster string) {
	set := s.plugin.Set
	if !set.HasRules() {
		s.first.Config = set.Match("", "", "")
		return ""
	}
	cluster = s.Gateway.Cluster()
	s.Traits.Read(s.Gateway)
	s.first.Config = set.Match(s.Gateway.Route(), cluster, s.Traits.Authority)
	return cluster
}

// scopeOf returns the name under which what the request is counted: the cluster's, or that of the clusters of its
// route.
func (s *Stream) scopeOf(cluster string) string {
	pl := s.first
	switch {
	case pl.Config.AmongClusters() && pl.Config.Budget() != nil:
		return views.BudgetScope
	case pl.Config.AmongClusters():
		return views.ClustersScope + s.Gateway.Route()
	case pl.Config.Regions.Enabled():
		return pl.region.HomeScope(s.plugin.Set, cluster)
	case cluster == "":
		return s.Gateway.Cluster()
	}
	return cluster
}

// passDuplicate leaves the request to another instance of the plugin, in front of this one, which has counted and
// steered it.
func (s *Stream) passDuplicate() host.Action {
	s.first.Enter(placement.PhaseUncounted)
	s.first.count(lb.ReasonAlreadyDecided)
	if v := s.plugin.VM; !v.Duplicate {
		v.Duplicate = true
		v.GW.Log(host.Warn, "the plugin is twice in one filter chain: the second one leaves requests to the first")
	}
	return host.Proceed
}

// stripClusterHeaders removes the headers by which routes take clusters: what a client sends in them never decides,
// whatever becomes of the request. Changing a header has the gateway select the route again.
func (s *Stream) stripClusterHeaders() {
	names := s.plugin.ClusterHeaders
	if set := s.plugin.Set; set != nil {
		names = set.ClusterHeaders()
	}
	if len(names) == 0 {
		return
	}
	s.Traits.Read(s.Gateway)
	for _, h := range s.Traits.Headers {
		if slices.Contains(names, h[0]) {
			s.Gateway.SetCluster(h[0], "")
		}
	}
}

// meetAPI takes in a request if it is one to the API, or to one of a configuration that is refused.
func (s *Stream) meetAPI(end bool) (_ host.Action, isCall bool) {
	set := s.plugin.Set
	if !s.plugin.HasAPI() {
		return host.Proceed, false
	}
	s.Traits.Read(s.Gateway)
	v, path := s.plugin.VM, s.Traits.Path
	r := apicall.Request{
		Stream: s.Gateway, Context: s.Context, Length: s.Traits.Length, Awaits: s.Traits.Awaits,
		Value: s.Traits.Value, Hold: s.Body.Hold, Release: s.Body.Release,
	}
	var call *apicall.Call
	var below string
	if set != nil {
		var cfg *config.Config
		var in *config.Inspect
		if cfg, below = set.API(path); cfg != nil {
			call = v.API.NewCall(r, cfg)
		} else if in, below = set.Inspect(path); in != nil {
			call = v.Inspector.NewCall(r, in, s.answerTrial)
		}
	}
	if call == nil {
		if !s.plugin.IsRefusedAPI(path) {
			return host.Proceed, false
		}
		call = apicall.New(v.Env, r, nil)
	}
	s.answer = call
	a := call.Meet(below, end)
	return a, s.answer == call // else it is a trial, which is read as any other request
}

// answerTrial answers a call with what would become of its request, if that was sent to the path below the call's own.
func (s *Stream) answerTrial(call *apicall.Call) {
	if call.Below() == "" {
		call.Refuse(404, "no_such_path", "no such path, want that of a request behind explain")
		return
	}
	s.answer = nil
	s.Explain(call.Below(), func(e *state.Explanation) {
		if e == nil {
			call.Failed()
			return
		}
		s.plugin.VM.Inspector.Explain(call, e)
	})
}

// meetProbe has the probe of another region answered, if the request is one. None goes on to a server, also where there
// are no regions, or not any more, and whatever has become of the configuration: who asks knows nothing of that, and
// goes on asking. end: the request has no body, as a probe.
func (s *Stream) meetProbe(end bool) (_ host.Action, isProbe bool) {
	set := s.plugin.Set
	var homes []*config.Config
	if set != nil {
		homes = set.Regions()
	}
	if len(homes) == 0 && !end { // its headers may not have to be read
		return host.Proceed, false
	}
	s.Traits.Read(s.Gateway)
	if s.Traits.Path != regions.ProbePath {
		return host.Proceed, false
	}
	texts, ok := regions.Texts(regions.ProbeHeaders, s.Traits.Value)
	if !ok {
		return host.Proceed, false
	}
	p := s.plugin.VM.Regions.NewProbe(s.Gateway, s.Context, set.RulesOf, func() host.Action {
		return s.first.pass(lb.ReasonPanic)
	})
	s.answer = p
	return p.Answer(homes, texts), true
}
