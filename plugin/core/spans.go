package core

import (
	"github.com/warmgate/warmgate/plugin/measured"
	"github.com/warmgate/warmgate/plugin/placement"
	"github.com/warmgate/warmgate/plugin/vm"
)

// This file is what a request's span gets to know of it (lb_config.telemetry.spans). Gateways finish a span before the
// plugin hears of the end of its request: so what is known is shown when the request is placed, when a stream shows its
// first output, and when the answer has passed. A span of a request that breaks off has what was known until then.

// told is how much of a request was shown.
type told uint8

const (
	toldNothing told = iota
	toldBegin        // of its answer
	toldAll
)

// span is what the span of one choice is told.
type span struct {
	of *placement.Serving
	by interface { // the choice
		know(m *measured.Request) placement.Record
	}
	in   *vm.VM
	told told
}

// tell shows what has come of the answer, once each time that there is more. ended: all of it has passed.
func (s *span) tell(ended bool) {
	if s.told == toldAll || !s.tells() {
		return
	}
	switch {
	case ended:
		s.told = toldAll
	case s.told == toldNothing && s.of.Of.Response.FirstAt > 0:
		s.told = toldBegin
	default:
		return
	}
	s.in.Callback(s.of.Of.Context, "fields of a span", s.show, nil)
}

// tells reports whether spans are told of the request.
func (s *span) tells() bool {
	pl := s.of.Of
	return pl.Config != nil && pl.Config.Telemetry.Spans && !pl.Trial
}

// show shows what is known of the request by now.
func (s *span) show() {
	v := s.in
	m := &v.Measured
	if s.told == toldAll {
		s.of.JudgeAnswer() // its end comes too late for the span
	}
	s.by.know(m)
	v.Fields = m.Fields(v.Fields[:0], s.told == toldAll)
	s.of.Of.Gateway.SetFields(v.Fields)
}
