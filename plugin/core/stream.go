package core

import (
	"time"

	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/admission"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/host"
)

// Stream is one request, as far as that is the same for all that is chosen for it, and its row of placements. It is the
// same on every gateway; what it does to the request goes through its [GatewayStream].
type Stream struct {
	host.GatewayStream
	context uint32 // the gateway's
	plugin  *Plugin

	traits traits
	what   prompt.Call // what the call makes an engine do
	body   body        // what has come of the request
	answer host.Answer // of the plugin's own, nil for a request that is placed
	first  *placement  // the first of its row
}

// computes reports whether a model works on the request, as far as is known.
func (s *Stream) computes() bool { return s.what == prompt.Computes || s.what == prompt.Unlisted }

// idle reports whether the call is known to compute nothing, or nothing here.
func (s *Stream) idle() bool { return s.what == prompt.Idle || s.what == prompt.Counts }

// isForModel reports whether the call can only be served by an endpoint that has its model, as far as is known.
func (s *Stream) isForModel() bool { return s.what != prompt.Idle && s.what != prompt.Bodiless }

// meetAPI takes in a request if it is one to the API, or to one of a configuration that is refused.
func (s *Stream) meetAPI(end bool) (_ host.Action, isCall bool) {
	set := s.plugin.set
	if !s.plugin.hasAPI() {
		return host.Proceed, false
	}
	s.traits.read(s)
	var cfg *config.Config
	var below string
	if set != nil {
		cfg, below = set.API(s.traits.path)
	}
	if cfg == nil && !s.plugin.isRefusedAPI(s.traits.path) {
		return host.Proceed, false
	}
	b := &s.body
	call := s.plugin.vm.api.NewCall(admission.Request{
		Stream: s.GatewayStream, Context: s.context, Length: s.traits.length, Awaits: s.traits.awaits,
		Value:   s.traits.value,
		Hold:    func(most time.Duration) { b.all.reading[b] = b.all.GW.Now() + most },
		Release: func() { delete(b.all.reading, b) },
	}, cfg)
	s.answer = call
	return call.Meet(below, end), true
}
