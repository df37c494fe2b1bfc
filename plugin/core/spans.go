package core

import (
	"strings"

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
	of   *placement.Serving
	by   *decision
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
	s.of.Record(m)
	s.by.name(m)
	s.of.Bill(m)
	v.Fields = m.Fields(v.Fields[:0], s.told == toldAll)
	s.of.Of.Gateway.SetFields(v.Fields)
}

// name sets what was asked for, and why the request went where it did.
func (d *decision) name(m *measured.Request) {
	m.Operation = operations.of(d.of.Traits.Path)
	if d.settled {
		m.Reason = d.reason.String()
	}
}

// operationNames are the names that OpenTelemetry has for what calls ask a model to do, by the ends of their paths.
type operationNames []struct{ end, name string }

var operations = operationNames{
	{"/chat/completions", "chat"},
	{"/completions", "text_completion"},
	{"/responses", "chat"},
	{"/messages", "chat"},
	{"/embeddings", "embeddings"},
	{":generateContent", "generate_content"},
	{":streamGenerateContent", "generate_content"},
	{"/api/chat", "chat"},
	{"/api/generate", "text_completion"},
}

// of returns the name for a path, which may have a query; "" if there is none.
func (o operationNames) of(path string) string {
	path, _, _ = strings.Cut(path, "?")
	path = strings.TrimRight(path, "/")
	for i := range o {
		if strings.HasSuffix(path, o[i].end) {
			return o[i].name
		}
	}
	return ""
}
