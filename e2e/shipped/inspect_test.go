package shipped

import "testing"

// TestInspectConfiguration compares warmgate-inspect.yaml with warmgate.yaml. TestInspectGuide of e2e/doctest runs it.
func TestInspectConfiguration(t *testing.T) {
	if c := samePlugin(t, "warmgate-inspect.yaml"); c.Inspect.Path != "/warmgate/inspect" {
		t.Errorf("nothing is shown: %+v", c)
	}
}
