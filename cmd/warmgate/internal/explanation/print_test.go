package explanation

import (
	"strings"
	"testing"

	"github.com/warmgate/warmgate/internal/state"
)

// How soon an answer is wanted is said in words, and what that changes.
func TestTargetInWords(t *testing.T) {
	for want, target := range map[string]*state.Target{
		"": nil,
		"wanted: its first token within 800 ms; which changes nothing: ": {TTFTMS: 800, Effect: "none"},
		"wanted: each one behind it within 12.5 ms; which is in the costs, and does not decide": {
			PerTokenUS: 12500, Effect: "weighed",
		},
		"wanted: its first token within 800 ms, each one behind it within 50 ms; " +
			`which decides: without it a\n:1 would win`: {
			TTFTMS: 800, PerTokenUS: 50000, Effect: "decided", Without: "a\n:1",
		},
	} {
		var b strings.Builder
		e := &state.Explanation{Decisions: []state.Decision{{Plan: &state.Plan{Unit: "tokens", Target: target}}}}
		if err := Print(&b, e); err != nil {
			t.Fatal(err)
		}
		if got := b.String(); !strings.Contains(got, want) || strings.Contains(got, "wanted") != (target != nil) {
			t.Errorf("printed\n%s\nwant %q", got, want)
		}
	}
}
