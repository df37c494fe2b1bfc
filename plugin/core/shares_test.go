package core

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/process"
)

const limitedConfig = `{"lb_policy":"endpoint_metrics","lb_config":{"debug_headers":true,"rate_limit":%g,` +
	`"health":{"slow_start":0}}}`

// startLimited returns a process whose workers know that the first of four engines is by far the best, and the second
// the next.
func startLimited(t *testing.T, workers int, limit float64) *fakeDriver {
	t.Helper()
	d := startFake(t, workers, 4, fmt.Sprintf(limitedConfig, limit))
	for i, others := range []int{0, 50, 100, 100} {
		d.SetPage(i, vllmPage(others))
	}
	for i := range workers {
		d.serve(i, 200)
	}
	d.advance(time.Second)
	return d
}

// spread sends requests one after the other over all workers, as many a second, and returns the share of each endpoint.
func (d *fakeDriver) spread(n, perSecond int) []float64 {
	counts := make([]float64, len(d.endpoints))
	for i := range n {
		c := d.client(i%len(d.workers), streamtest.Request{})
		counts[c.Upstream()] += 1 / float64(n)
		d.advance(time.Second / time.Duration(perSecond))
		c.Finish()
	}
	return counts
}

// A share is one of all requests of the gateway, so the number of its workers does not matter.
func TestShareOverAllWorkers(t *testing.T) {
	for _, workers := range []int{1, 2, 8} {
		for _, limit := range []float64{0.5, 0.7} {
			d := startLimited(t, workers, limit)
			d.spread(200, 100)
			got := d.spread(400, 100)
			if got[0] < limit-0.05 || got[0] > limit+0.02 || got[2]+got[3] > 0.03 {
				t.Errorf("%d workers, limit %g: the endpoints get %.2f of the requests, want the limit, and "+
					"the rest for the "+
					"second", workers, limit, got)
			}
			d.drained()
		}
	}
}

func TestShareEnds(t *testing.T) {
	d := startLimited(t, 2, 0.5)
	d.spread(100, 100)
	if !d.configure(fmt.Sprintf(limitedConfig, 1.0)) {
		t.Fatal("refused")
	}
	if got := d.spread(50, 100); got[0] < 0.99 {
		t.Errorf("without a limit any more, the best endpoint gets %.2f", got)
	}
	if !d.configure(fmt.Sprintf(limitedConfig, 0.5)) {
		t.Fatal("refused")
	}
	d.advance(15 * time.Second) // the window is over
	if got := d.spread(100, 100); got[0] < 0.45 || got[0] > 0.55 {
		t.Errorf("with the limit again, the best endpoint gets %.2f", got)
	}
}

func TestSharesWithoutALimit(t *testing.T) {
	d := startFake(t, 2, 2, metricsConfig)
	d.SetPage(0, vllmPage(0))
	d.spread(20, 10)
	if _, there := d.kv.Cells[process.KeyShares+fakeCluster]; there {
		t.Error("requests are counted for a limit that there is not")
	}
}

// A swap that another VM wins loses no count.
func TestLostSwapOfShares(t *testing.T) {
	d := startLimited(t, 2, 0.5)
	lost := 0
	d.kv.OnSet = func(key string, _ []byte, _ uint32) error {
		if key != process.KeyShares+fakeCluster {
			return nil
		}
		if lost++; lost%3 != 0 {
			return lb.ErrMismatch
		}
		return nil
	}
	d.spread(200, 50)
	if got := d.spread(200, 50); got[0] < 0.42 || got[0] > 0.55 {
		t.Errorf("with two of three swaps lost the best endpoint gets %.2f, want half", got)
	}
	if lost == 0 {
		t.Error("nothing was shared")
	}
}
