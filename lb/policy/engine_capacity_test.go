package policy_test

import (
	"testing"
	"time"
)

// A request that has just been sent is not in the engine's numbers yet, and one that has just ended may still be.
func TestExternalNeedsTwoSamples(t *testing.T) {
	w := newEngineCluster(t, 2, nil)
	w.report(0, 2, running(8), waiting(0))
	w.report(1, 2, running(2), waiting(0))
	w.update()
	w.now += time.Second
	w.report(0, 2, running(2), waiting(0))
	w.report(1, 2, running(2), waiting(0))
	w.update()
	if p, _ := w.plan(""); p.Candidates[0].Base != p.Candidates[1].Base {
		t.Errorf("an excess in one sample counts: %+v", p.Candidates)
	}
}
