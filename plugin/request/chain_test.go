package request

import (
	"testing"

	"github.com/warmgate/warmgate/lb/prompt"
)

// The path decides which API a request is for, where the body may be of several APIs.
func TestShape(t *testing.T) {
	for _, c := range []struct {
		path string
		body prompt.API
		want prompt.API
	}{
		{"/v1/chat/completions", prompt.Chat, prompt.Chat},
		{"/v1/chat/completions?x=/messages", prompt.Anthropic, prompt.Chat},
		{"/v1/messages", prompt.Chat, prompt.Anthropic},
		{"/v1/messages?beta=true", prompt.Unknown, prompt.Anthropic},
		{"/v1/completions", prompt.Completions, prompt.Completions},
		{"/v1/completions", prompt.Unknown, prompt.Completions},
		{"/v1/responses", prompt.Embeddings, prompt.Responses},
		{"/", prompt.Anthropic, prompt.Anthropic},
		{"", prompt.Responses, prompt.Responses},
	} {
		of := Traits{Path: c.path}
		if got := of.shapeOr(c.body); got != c.want {
			t.Errorf("%q with shape %d: %d, want %d", c.path, c.body, got, c.want)
		}
	}
}

// Requests are grouped by tenant, and without one by the beginning of the prompt.
func TestSourceOfPrompts(t *testing.T) {
	block := func(tenant, key uint64) prompt.Block { return prompt.Block{Key: tenant<<56 | key, End: 1} }
	of := func(blocks ...prompt.Block) uint64 { return (&Chain{Blocks: blocks}).Source() }
	if of(block(0, 5), block(0, 6)) != of(block(0, 5)) || of(block(0, 5)) == of(block(0, 6)) || of() != 0 {
		t.Error("without a tenant the first block alone distinguishes sources")
	}
	if of(block(3, 5)) != of(block(3, 6)) || of(block(3, 5)) == of(block(4, 5)) {
		t.Error("with a tenant the tenant alone distinguishes sources")
	}
}
