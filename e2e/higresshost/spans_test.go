package higresshost_test

import (
	"testing"

	"github.com/warmgate/warmgate/e2e/higresshost"
)

const withSpans = `{"lb_policy":"global_least_request","lb_config":{"telemetry":{"spans":true}}}`

// TestSpans holds which attributes Higress's spans get, and that none is set where none are asked for.
func TestSpans(t *testing.T) {
	gw := warmgate(t, higresshost.Options{Config: withSpans})
	s := post(gw.Worker(0))
	s.Respond(200, `{"usage":{"prompt_tokens":9,"completion_tokens":5}}`)
	for name, want := range map[string]string{
		"gen_ai.operation.name": "chat", "warmgate.endpoint": s.Upstream(), "warmgate.reason": "chosen",
		"warmgate.policy": "global_least_request", "warmgate.outcome": "ok",
	} {
		if got := s.Span[name]; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	failed := post(gw.Worker(0))
	failed.Respond(500, "{}")
	if got := failed.Span["error.type"]; got != "500" {
		t.Errorf("error.type of a failure is %q", got)
	}
	without := warmgate(t, higresshost.Options{})
	if s := post(without.Worker(0)); len(s.Span) > 0 {
		t.Errorf("without the key: %v", s.Span)
	}
}
