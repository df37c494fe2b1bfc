package core

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
)

// Rare requests find the metrics that the gateway has stored, although no request has read them in the time between.
func TestRareRequestsHaveMetrics(t *testing.T) {
	d := startFake(t, 2, 2, metricsConfig)
	d.stored = true
	chosen, idle := 0, 0
	for i := range 12 {
		some := fmt.Sprintf("# page %d\n", i) // engines never write the same twice
		d.pages = map[string]string{d.Addr(0): some + vllmPage(9), d.Addr(1): some + vllmPage(0)}
		c := d.client(i%2, streamtest.Request{})
		d.advance(2 * time.Second)
		if c.Upstream() == 1 {
			idle++
		}
		c.Finish()
		if c.Result().Headers["x-warmgate-reason"] == "chosen" {
			chosen++
		}
		d.advance(5 * time.Second)
	}
	if chosen != 12 || idle < 11 { // one busy page may be that of a moment
		t.Errorf("of 12 requests %d were balanced, %d went to the idle endpoint", chosen, idle)
	}
}

// Many requests at once that find no sample, or a fresh one, do not read the list for it.
func TestMetricsAreReadOnceAnInterval(t *testing.T) {
	for name, pages := range map[string]map[string]string{"none": {}, "fresh": {"10.0.0.1:8000": vllmPage(0)}} {
		d := startFake(t, 1, 2, metricsConfig)
		d.stored = true
		d.pages = pages
		if name == "fresh" {
			d.pages = map[string]string{d.Addr(0): vllmPage(0), d.Addr(1): vllmPage(0)}
		}
		before := d.scrapes
		for range 100 {
			d.client(0, streamtest.Request{}).Finish()
		}
		if n := d.scrapes - before; n != 1 {
			t.Errorf("%s: 100 requests read the pages %d times, want once", name, n)
		}
	}
}
