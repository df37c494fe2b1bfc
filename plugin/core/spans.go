package core

import (
	"github.com/warmgate/warmgate/plugin/measured"
	"github.com/warmgate/warmgate/plugin/placement"
	"github.com/warmgate/warmgate/plugin/vm"
)

// This file is what a request's span gets to know of it (lb_config.telemetry.spans). Gateways finish a span before the
// plugin hears of the end of its request: so what is known is shown when the request is placed, when a stream shows its
// first output, and when the answer has passed. A span of a request that breaks off has what was known until then.

// shown is how much of a request its span has.
type shown uint8

const (
	shownNothing shown = iota
	shownBegin         // of its answer
	shownAll
)

// span shows one choice to the span of its request.
type span struct {
	of *placement.Serving
	by interface { // the choice
		know(m *measured.Request) placement.Record
	}
	in    *vm.VM
	shown shown
}

// update shows what has come of the answer, once each time that there is more. ended: all of it has passed.
func (s *span) update(ended bool) {
	if s.shown == shownAll || !s.isOn() {
		return
	}
	switch {
	case ended:
		s.shown = shownAll
	case s.shown == shownNothing && s.of.Of.Response.FirstAt > 0:
		s.shown = shownBegin
	default:
		return
	}
	s.in.Callback(s.of.Of.Context, "fields of a span", s.show, nil)
}

// isOn reports whether the request is shown to its span.
func (s *span) isOn() bool {
	pl := s.of.Of
	return pl.Config != nil && pl.Config.Telemetry.Spans && !pl.Trial
}

// show shows what is known of the request by now.
func (s *span) show() {
	v := s.in
	m := &v.Measured
	if s.shown == shownAll {
		s.of.JudgeAnswer() // its end comes too late for the span
	}
	s.by.know(m)
	v.Fields = m.Fields(v.Fields[:0], s.shown == shownAll)
	s.of.Of.Gateway.SetFields(v.Fields)
}
