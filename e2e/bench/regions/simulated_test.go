package regions

import "testing"

// TestSimulatedRanking holds that nine in ten of the pairs of contenders that differ with real gateways beyond the
// noise of their rounds are ranked alike by a simulation.
func TestSimulatedRanking(t *testing.T) {
	ranking, err := SimulatedRanking(t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	if t.Logf("%+v", ranking); ranking.Pairs < 20 || ranking.Share() < 0.9 {
		t.Errorf("%d of %d pairs are ranked as by real gateways", ranking.Same, ranking.Pairs)
	}
}
