package doctest

import (
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
)

// TestAdmissionGuide runs the commands of docs/admission.md.
func TestAdmissionGuide(t *testing.T) {
	harness.LongT(t)
	needs(t, "curl", "setpriv")
	const document = "docs/admission.md"
	blocks := shell(t, document)
	if len(blocks) != 6 {
		t.Fatalf("the commands have changed: %q", blocks)
	}
	output := play(t, stage(t), strings.Join(blocks, ""))
	shows(t, document, output)
	for _, want := range []string{`{"model_backend_id":"gpt-4o-mini","task_id":"tsk_`, `{"models":[{"id":"gpt-4o",`} {
		if !strings.Contains(output, want) {
			t.Errorf("the commands print\n%s\nwithout %s", output, want)
		}
	}
}
