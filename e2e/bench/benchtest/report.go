// Package benchtest has what the tests of the benchmarks share.
package benchtest

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/bench"
)

// Report publishes what a benchmark found, looks for texts in it, and returns it.
func Report(t *testing.T, configuration []string, table *bench.Table, line bench.Line, want ...string) string {
	t.Helper()
	return Published(t, func(w io.Writer) error { return bench.Publish(w, "", configuration, table, line) }, want...)
}

// Published looks for texts in what is published, and returns that.
func Published(t *testing.T, publish func(w io.Writer) error, want ...string) string {
	t.Helper()
	var out strings.Builder
	if err := publish(&out); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("the report lacks %q:\n%s", w, text)
		}
	}
	if lines := strings.Split(strings.TrimSpace(text), "\n"); !json.Valid([]byte(lines[len(lines)-1])) {
		t.Errorf("the last line is %s", lines[len(lines)-1])
	}
	if strings.Contains(text, "%!") {
		t.Errorf("a verb without its value:\n%s", text)
	}
	return text
}
