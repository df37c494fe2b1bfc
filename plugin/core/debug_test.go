package core

import (
	"fmt"
	"slices"
	"testing"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/host"
)

// A request that the gateway answers before it is decided has no reason to show.
func TestHeldRequestShowsNoReason(t *testing.T) {
	d := startFake(t, 1, 2, tokensConfig)
	c := d.workers[0].open(streamtest.Request{Unended: true}.Filled())
	c.answer(504, "stream_idle_timeout")
	if got, ok := c.Result().Headers["x-warmgate-reason"]; ok {
		t.Errorf("reason %q", got)
	}
	if got := d.metrics.decisions(); len(got) != 1 || got["body_late"] != 1 {
		t.Errorf("decisions %v", got)
	}
	d.drained()
}

func TestDescribe(t *testing.T) {
	for _, c := range []struct {
		addr   string
		reason lb.Reason
		load   int64
		want   string
	}{
		{"10.0.0.1:8000", lb.ReasonChosen, 3, "host=10.0.0.1:8000 reason=chosen load=3"},
		{"", lb.ReasonDisabled, 0, "host=- reason=disabled"},
		{"[::1]:80", lb.ReasonShadow, 1, "host=[::1]:80 reason=shadow load=1"},
	} {
		if got := string(appendChoice(nil, "host=", c.addr, c.reason, c.load)); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestDetailLog(t *testing.T) {
	d := startFake(t, 1, 1, `{"lb_policy":"global_least_request","lb_config":{"enableDetailLog":true}}`)
	d.serve(0, 200)
	want := fmt.Sprintf("%d cluster=%s host=%s reason=chosen load=1", host.Info, fakeCluster, d.Addr(0))
	if !slices.Contains(d.log, want) {
		t.Errorf("the log %q has no line %q", d.log, want)
	}
}
