package core

import (
	"strings"

	"github.com/warmgate/warmgate/plugin/measured"
)

// This file is what a request asks a model to do, as OpenTelemetry names it.

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
