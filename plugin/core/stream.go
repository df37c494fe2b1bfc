package core

import (
	"slices"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/admission"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/regions"
	"github.com/warmgate/warmgate/plugin/request"
)

// Stream is one request, and its row of choices.
type Stream struct {
	request.Request
	plugin *Plugin
	answer host.Answer // of the plugin's own, nil for a request that is placed
	first  *choice     // the first of its row
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
	s.Traits.Read(s.Gateway)
	for _, h := range s.Traits.Headers {
		if slices.Contains(names, h[0]) {
			s.Gateway.SetCluster(h[0], "")
		}
	}
}

// meetAPI takes in a request if it is one to the API, or to one of a configuration that is refused.
func (s *Stream) meetAPI(end bool) (_ host.Action, isCall bool) {
	set := s.plugin.set
	if !s.plugin.hasAPI() {
		return host.Proceed, false
	}
	s.Traits.Read(s.Gateway)
	var cfg *config.Config
	var below string
	if set != nil {
		cfg, below = set.API(s.Traits.Path)
	}
	if cfg == nil && !s.plugin.isRefusedAPI(s.Traits.Path) {
		return host.Proceed, false
	}
	call := s.plugin.vm.api.NewCall(admission.Request{
		Stream: s.Gateway, Context: s.Context, Length: s.Traits.Length, Awaits: s.Traits.Awaits,
		Value: s.Traits.Value, Hold: s.Body.Hold, Release: s.Body.Release,
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
	s.Traits.Read(s.Gateway)
	text := s.Traits.Value(regions.HeaderProbe)
	if text == "" || s.Traits.Value(":path") != regions.ProbePath {
		return host.Proceed, false
	}
	p := v.regions.NewProbe(s.Gateway, s.Context, set.RulesOf, func() host.Action {
		return s.first.pass(lb.ReasonPanic)
	})
	s.answer = p
	if a, answered = p.Answer(set.Regions(), text); !answered {
		s.answer = nil
	}
	return a, answered
}
