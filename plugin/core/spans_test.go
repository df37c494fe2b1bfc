package core

import (
	"errors"
	"slices"
	"testing"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/plugin/measured"
)

const spansConfig = `{"lb_policy":"global_least_request","lb_config":{"telemetry":{"spans":true}}}`

func (s *fakeStream) SetFields(fields []measured.Field) {
	s.called("SetFields")
	s.fields = slices.Clone(fields)
}

// field returns a field of the span as a text or a number, nil if there is none.
func (s *fakeStream) field(name string) any {
	i := slices.IndexFunc(s.fields, func(f measured.Field) bool { return f.Name == name })
	switch {
	case i < 0:
		return nil
	case s.fields[i].Text != "":
		return s.fields[i].Text
	}
	return s.fields[i].Number
}

// A span has what is known when the gateway finishes it: before the end of the request reaches the plugin.
func TestSpanFields(t *testing.T) {
	d := startFake(t, 1, 1, spansConfig)
	c := d.workers[0].open(streamtest.Request{}.Filled())
	if c.field("reason") != "chosen" || c.field("endpoint") != d.Addr(0) || c.field("operation") != "chat" {
		t.Errorf("placed: %v", c.fields)
	}
	c.answer(500, "via_upstream")
	if c.field("outcome") != "server_failed" || c.field("error") != "500" {
		t.Errorf("failed: %v", c.fields)
	}
	for _, native := range []error{nil, errors.New("no")} {
		d.steerErr = native
		c = d.client(0, streamtest.Request{Frames: []string{"{}"}})
		c.Head(200, [2]string{"content-type", "application/json"})
		c.Stream.ResponseBody([]byte(`{"error":{"message":"out of memory","code":500}}`), true)
		if c.field("outcome") != "server_failed" {
			t.Errorf("with an error inside: %v", c.fields)
		}
	}
	d.drained()
}

// Without the key nothing is shown.
func TestNoSpanFields(t *testing.T) {
	d := startFake(t, 1, 1, `{"lb_policy":"global_least_request"}`)
	c := d.workers[0].open(streamtest.Request{}.Filled())
	c.answer(200, "via_upstream")
	if len(c.fields) > 0 {
		t.Errorf("%v", c.fields)
	}
}

func TestOperation(t *testing.T) {
	for path, want := range map[string]string{
		"/v1/chat/completions": "chat", "/openai/v1/chat/completions?x=/embeddings": "chat",
		"/v1/completions/": "text_completion", "/v1/embeddings": "embeddings", "/v1/messages": "chat",
		"/v1/responses": "chat", "/v1beta/models/g:streamGenerateContent?alt=sse": "generate_content",
		"/v1/audio/speech": "", "/": "", "": "",
	} {
		if got := operations.of(path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}
