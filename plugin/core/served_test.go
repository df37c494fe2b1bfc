package core

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/plugin/stats"
)

// strayTo lets another cluster serve the request.
func (s *fakeStream) strayTo(addr string) { s.served, s.cluster = addr, "another" }

// A request that another cluster serves is no load of the endpoint that it was planned on, and neither its success nor
// its failure counts for that endpoint.
func TestMisrouted(t *testing.T) {
	for name, end := range map[string]func(c *fakeStream){
		"served":     func(c *fakeStream) { c.Head(200); c.Data("a"); c.Finish() },
		"failed":     func(c *fakeStream) { c.Head(500); c.Finish() },
		"overloaded": func(c *fakeStream) { c.Head(503); c.Finish() },
		"reset": func(c *fakeStream) {
			c.answer(503, "upstream_reset_before_response_started{connection_failure}")
		},
		"left": func(c *fakeStream) {
			c.process.advance(time.Minute)
			c.ResetByClient()
		},
	} {
		d := startFake(t, 1, 2, requestsConfig)
		d.warm()
		for range 20 {
			c := d.client(0, streamtest.Request{})
			c.strayTo("10.9.9.9:80")
			end(c)
		}
		if n := d.Counter(stats.Misrouted); n != 20 {
			t.Errorf("%s: %d strays counted, want 20", name, n)
		}
		if n := d.Counter(stats.Moves); n != 0 {
			t.Errorf("%s: %d moves counted", name, n)
		}
		for addr, w := range d.weights() {
			if w != 1 {
				t.Errorf("%s: %s has weight %v for what another cluster did", name, addr, w)
			}
		}
		d.drained()
	}
}

// The lease is returned when the response begins, also where the cluster has an endpoint of that address, and in shadow
// mode.
func TestMisroutedReturnsItsLease(t *testing.T) {
	for _, config := range []string{
		requestsConfig, `{"lb_policy":"global_least_request","lb_config":{"shadow":true}}`,
		`{"lb_policy":"prefix_cache","lb_config":{"health":{"slow_start":0}}}`,
	} {
		d := startFake(t, 1, 2, config)
		c := d.client(0, streamtest.Request{Frames: []string{`{"model":"m","prompt":"` + "hello" + `"}`}})
		chosen := c.core.first.Lease.Chosen
		other := d.Addr(0)
		if other == chosen {
			other = d.Addr(1)
		}
		c.strayTo(other)
		c.Head(200)
		d.drained()
		c.Data("a")
		c.Finish()
		d.drained()
		if n := d.Counter(stats.Misrouted); n != 1 {
			t.Errorf("%s: %d strays counted, want 1", config, n)
		}
	}
}

// If the chosen endpoint serves, the cluster is not read: that would cost a call into the gateway for every request.
func TestServedAsChosenReadsNoCluster(t *testing.T) {
	d := startFake(t, 1, 2, requestsConfig)
	c := d.client(0, streamtest.Request{})
	d.fault, d.faultLeft = "Cluster", 1
	c.Head(200)
	c.Finish()
	if d.faultLeft != 1 {
		t.Error("the plugin read the cluster")
	}
}
