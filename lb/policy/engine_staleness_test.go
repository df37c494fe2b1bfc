package policy_test

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
)

func TestNoMetrics(t *testing.T) {
	w := newEngineCluster(t, 2, nil)
	if _, reason := w.plan(""); reason != lb.ReasonNoMetrics {
		t.Errorf("without any sample: %v", reason)
	}
	w.report(0, 0, running(0), waiting(0))
	w.update()
	if _, reason := w.plan(""); reason != lb.ReasonChosen {
		t.Errorf("with one sample: %v", reason)
	}
	if fresh := w.engines.CountFresh(w.now, w.cfg.StaleAfter); fresh != 1 {
		t.Errorf("%d fresh, want 1", fresh)
	}
	w.now += w.cfg.StaleAfter + time.Millisecond
	if _, reason := w.plan(""); reason != lb.ReasonNoMetrics {
		t.Errorf("with a stale sample: %v", reason)
	}
}
