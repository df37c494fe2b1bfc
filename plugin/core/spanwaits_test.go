package core

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
)

// A span has how long the request has waited for its cluster, too.
func TestSpanHasOuterWaits(t *testing.T) {
	d := startSites(t, 2, nestedConfig(`"max_inflight":1,"queue":{"max_wait":"20s"},"telemetry":{"spans":true}`,
		"global_least_request", ""))
	var open []*fakeStream
	for range 3 {
		open = append(open, d.client(0, streamtest.Request{}))
	}
	waits := d.client(0, streamtest.Request{})
	if !waits.Held() {
		t.Fatalf("the fourth request goes to %s", waits.target())
	}
	d.advance(2 * time.Second)
	for _, c := range open {
		c.Finish()
	}
	d.advance(100 * time.Millisecond)
	waits.Finish()
	if got, _ := waits.field("wait_ms").(float64); got < 2000 {
		t.Errorf("waited %v ms: %v", got, waits.fields)
	}
	d.emptied()
}
