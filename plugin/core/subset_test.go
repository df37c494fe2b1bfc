package core

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/internal/state"
)

// hintedBy is a request that the header limits to endpoints.
func hintedBy(addrs ...string) streamtest.Request {
	return streamtest.Request{Headers: [][2]string{
		{"x-gateway-destination-endpoint-subset", strings.Join(addrs, ",")},
	}}
}

// A request waits for an endpoint of its subset while others are open, and is answered once there is none any more.
func TestWaitsInSubset(t *testing.T) {
	d, busy := startQueue(t, 2, 3, queueConfig("", `"subset_hint":"header"`))
	at := func(i int) *fakeStream {
		return busy[slices.IndexFunc(busy, func(s *fakeStream) bool { return s.Upstream() == i })]
	}
	c, other := d.client(0, hintedBy(d.Addr(1))), d.client(1, hintedBy(d.Addr(1)))
	at(2).Finish()
	d.advance(time.Second)
	d.wantWaiting(c, other)
	at(1).Finish()
	d.advance(time.Second)
	if c.Upstream() != 1 {
		t.Errorf("at endpoint %d", c.Upstream())
	}
	d.wantWaiting(other)
	d.SetEndpoints([]streamtest.Endpoint{{}, {State: streamtest.Unhealthy}, {}})
	d.advance(time.Second)
	if r := other.Result(); !other.Ended || r.Status != 503 || r.Headers["x-warmgate-reason"] != "none_in_subset" {
		t.Errorf("at endpoint %d, %+v", other.Upstream(), r)
	}
	c.Finish()
	at(0).Finish()
	d.drained()
}

// The hint of a filter in front counts where it is asked for, and not what a client writes.
func TestSubsetOfMetadata(t *testing.T) {
	d := startFake(t, 2, 3, `{"lb_policy":"global_least_request","lb_config":{"debug_headers":true,`+
		`"subset_hint":"metadata"}}`)
	d.hint = []byte(d.Addr(2))
	for i := range 4 {
		c := d.client(i%2, hintedBy(d.Addr(0)))
		if c.Upstream() != 2 {
			t.Errorf("at endpoint %d", c.Upstream())
		}
		c.Finish()
	}
	d.hint = nil
	c := d.client(0, hintedBy("10.9.9.9:1"))
	if c.Upstream() < 0 {
		t.Errorf("%+v", c.Result())
	}
	c.Finish()
	d.drained()
}

// In shadow mode nothing is refused for its subset.
func TestSubsetInShadow(t *testing.T) {
	d := startFake(t, 1, 2, `{"lb_policy":"global_least_request","lb_config":{"debug_headers":true,"shadow":true,`+
		`"subset_hint":"header"}}`)
	c := d.client(0, hintedBy())
	if c.Upstream() < 0 {
		t.Errorf("%+v", c.Result())
	}
	c.Finish()
	d.drained()
}

// An explanation says which endpoints are outside of the subset, and that there is none inside.
func TestSubsetIsExplained(t *testing.T) {
	d := startFake(t, 1, 2, `{"lb_policy":"global_least_request","lb_config":{"subset_hint":"header"}}`)
	choice := d.explain(0, hintedBy(d.Addr(1))).Decisions[0]
	outside := []state.Excluded{{Addr: d.Addr(0), Why: "subset"}}
	if choice.Endpoint != d.Addr(1) || !slices.Equal(choice.Excluded, outside) {
		t.Errorf("%+v", choice)
	}
	choice = d.explain(0, hintedBy("10.9.9.9:1")).Decisions[0]
	if choice.Reason != "none_in_subset" || len(choice.Excluded) != 2 || choice.Excluded[1].Why != "subset" {
		t.Errorf("%+v", choice)
	}
	d.drained()
}

// A subset is of endpoints here: its requests are not forwarded to another region, whatever room that has.
func TestSubsetStaysAtHome(t *testing.T) {
	us, eu := newRegions(t, 2, 2, "", func(_ *fakeDriver, config string) string {
		return strings.Replace(config, `"max_inflight":1`, `"max_inflight":1,"subset_hint":"header"`, 1)
	})
	var busy []*fakeStream
	for i := range 2 {
		busy = append(busy, us.client(i, streamtest.Request{}))
	}
	c := us.client(0, hintedBy(us.Addr(0)))
	pass(time.Second, us, eu)
	us.wantWaiting(c)
	for _, s := range busy {
		s.Finish()
	}
	c.ResetByClient()
	us.drained()
	eu.drained()
}
