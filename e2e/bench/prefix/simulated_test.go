package prefix

import (
	"os"
	"testing"
)

// TestSimulatedRanking holds that nine in ten of the pairs of policies that differ with the real gateway beyond the
// noise of its rounds are ranked alike by a simulation. TRACE names the file of a trace.
func TestSimulatedRanking(t *testing.T) {
	ranking, err := SimulatedRanking(os.Getenv("TRACE"), t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	if t.Logf("%+v", ranking); ranking.Pairs < 30 || ranking.Share() < 0.9 {
		t.Errorf("%d of %d pairs are ranked as by the real gateway", ranking.Same, ranking.Pairs)
	}
}
