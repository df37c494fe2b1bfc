package core

import (
	"strings"

	"github.com/warmgate/warmgate/plugin/measured"
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

// tell shows what has come of the answer, once each time that there is more. ended: all of it has passed.
func (pl *choice) tell(ended bool) {
	if pl.told == toldAll || pl.inside != nil || !pl.tells() {
		return
	}
	switch {
	case ended:
		pl.told = toldAll
	case pl.told == toldNothing && pl.Response.FirstAt > 0:
		pl.told = toldBegin
	default:
		return
	}
	pl.plugin.VM.Callback(pl.Context, "fields of a span", pl.showFields, nil)
}

// tells reports whether spans are told of the request.
func (pl *choice) tells() bool { return pl.Config != nil && pl.Config.Telemetry.Spans && !pl.Trial }

// showFields shows what is known of the request by now.
func (pl *choice) showFields() {
	v := pl.plugin.VM
	m := &v.Measured
	pl.serving.Record(m)
	name(m, pl)
	pl.serving.Bill(m)
	v.Fields = m.Fields(v.Fields[:0], pl.told == toldAll)
	pl.Gateway.SetFields(v.Fields)
}

// name sets what was asked for, and why the request went where it did.
func name(m *measured.Request, pl *choice) {
	m.Operation = operations.of(pl.Traits.Path)
	if pl.settled {
		m.Reason = pl.reason.String()
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
