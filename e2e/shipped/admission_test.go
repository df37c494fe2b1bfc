package shipped

import "testing"

// TestAdmissionConfiguration compares warmgate-admission.yaml with warmgate.yaml. TestAdmissionGuide of e2e/doctest
// runs it.
func TestAdmissionConfiguration(t *testing.T) {
	c := samePlugin(t, "warmgate-admission.yaml")
	if c.API.Path != "/warmgate/v1" || c.Budget() == nil || !c.AmongClusters() {
		t.Errorf("no API for targets: %+v", c)
	}
}
