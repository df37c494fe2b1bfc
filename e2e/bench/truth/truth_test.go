package truth

import (
	"testing"
)

// TestTruth holds what does not depend on how busy the machine is: who has left and what has failed, tokens and costs
// where answers report their usage, and that statistics are the sum of the access log.
func TestTruth(t *testing.T) {
	e, err := Compare(t.Context(), Plan{Requests: 307, Rate: 61, Seed: 11})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", *e)
	if e.Missing+e.Outcomes+e.Counters > 0 || e.Tokens > 0 || e.Cost > 0 {
		t.Error("what the plugin says is not true")
	}
	// Streams that break off are counted by what passed, which the load of the machine does not change.
	if e.OutputLeft > 0.03 {
		t.Errorf("estimated tokens are off by %.3f", e.OutputLeft)
	}
}
