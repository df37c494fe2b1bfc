package doctest

import (
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
)

// TestInspectGuide runs the commands of docs/inspect.md.
func TestInspectGuide(t *testing.T) {
	harness.LongT(t)
	needs(t, "curl", "setpriv")
	const document = "docs/inspect.md"
	blocks := shell(t, document)
	if len(blocks) != 3 {
		t.Fatalf("the commands have changed: %q", blocks)
	}
	output := play(t, stage(t), strings.Join(blocks, ""))
	for _, want := range []string{`{"format":1,"version":"`, `"clusters":[`, `"request":{"call":"computes"`} {
		if !strings.Contains(output, want) {
			t.Errorf("the commands print\n%s\nwithout %s", output, want)
		}
	}
}
