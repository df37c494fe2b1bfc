package metrics

import "testing"

// TestSimulatedRanking holds that nine in ten of the pairs of policies that differ with the real gateway beyond the
// noise of its rounds are ranked alike by a simulation.
func TestSimulatedRanking(t *testing.T) {
	ranking, err := SimulatedRanking(t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	if t.Logf("%+v", ranking); ranking.Pairs < 6 || ranking.Share() < 0.9 {
		t.Errorf("%d of %d pairs are ranked as by the real gateway", ranking.Same, ranking.Pairs)
	}
}
