package core

import (
	"slices"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/admission"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/regions"
)

// Stream is one request, and its row of choices.
type Stream struct {
	request
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
	s.traits.read(s.gateway)
	for _, h := range s.traits.headers {
		if slices.Contains(names, h[0]) {
			s.gateway.SetCluster(h[0], "")
		}
	}
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
