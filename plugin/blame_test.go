package main

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
)

// An endpoint that hangs loses its share although its clients, not the gateway, end the requests.
func TestHungEndpoint(t *testing.T) {
	d := startFake(t, 1, 4, requestsConfig)
	hung := map[*fakeClient]time.Duration{}
	lost, last := 0, 0
	const requests = 600
	for i := range requests {
		c := &fakeClient{d.workers[0].open(streamtest.Request{}.Filled())}
		d.advance(tickPeriod)
		if c.Upstream() == 0 {
			hung[c] = d.now + 10*time.Second
			if lost++; i >= requests/2 {
				last++
			}
		} else {
			c.Finish()
		}
		for c, until := range hung {
			if d.now >= until {
				c.ResetByClient()
				delete(hung, c)
			}
		}
	}
	if last > requests/2/20 {
		t.Errorf("of the last %d requests %d went to the endpoint that hangs (%d in all)", requests/2, last, lost)
	}
	if got := d.metrics.values[statEjections+";cluster="+fakeCluster]; got != 0 {
		t.Errorf("%d ejections for what clients did", got)
	}
}

// What a later filter or the gateway itself answers is not held against the endpoint that was chosen.
func TestAnswersOfTheGateway(t *testing.T) {
	for name, spoil := range map[string]func(*fakeDriver){
		"a later filter answers 429": func(d *fakeDriver) { d.workers[0].open(streamtest.Request{Local: 429}.Filled()) },
		"a later filter answers 503": func(d *fakeDriver) { d.workers[0].open(streamtest.Request{Local: 503}.Filled()) },
		"a circuit breaker": func(d *fakeDriver) {
			c := d.workers[0].open(streamtest.Request{}.Filled())
			c.details = "upstream_reset_before_response_started{overflow}"
			c.answer(streamtest.Result{Status: 503})
		},
	} {
		d := startFake(t, 1, 2, requestsConfig)
		for range 20 {
			spoil(d)
		}
		for addr, w := range d.weights() {
			if w != 1 {
				t.Errorf("%s: %s has weight %v", name, addr, w)
			}
		}
		d.drained()
	}
}

// A later filter's answer to a request for a failing endpoint is no sign that it is well again.
func TestAnswersOfTheGatewayDoNotHeal(t *testing.T) {
	d := startFake(t, 1, 1, requestsConfig)
	d.serve(0, 500)
	before := d.weights()[d.Addr(0)]
	for range 20 {
		d.workers[0].open(streamtest.Request{Local: 200}.Filled())
	}
	if got := d.weights()[d.Addr(0)]; got != before {
		t.Errorf("weight %v, before %v", got, before)
	}
}

// A full endpoint whose requests the gateway retries elsewhere loses weight, and is not ejected.
func TestFullEndpointIsNotEjected(t *testing.T) {
	d := startFake(t, 1, 3, requestsConfig)
	var all []*fakeClient
	for range 24 {
		all = append(all, &fakeClient{d.workers[0].open(streamtest.Request{}.Filled())})
	}
	for _, c := range all {
		if c.Upstream() == 0 {
			c.Retry()
		}
		c.Finish()
	}
	if w := d.weights()[d.Addr(0)]; w == 1 {
		t.Error("the full endpoint has its whole weight")
	}
	if got := d.workers[0].vm.clusters[fakeCluster].health.Ejections(); got != 0 {
		t.Errorf("%d ejections", got)
	}
}

// A connection failure that is the end of it counts as one.
func TestRefusingEndpointIsEjected(t *testing.T) {
	d := startFake(t, 1, 2, requestsConfig)
	d.endpoints[0].refuses, d.endpoints[1].refuses = true, true
	for range 8 {
		d.workers[0].open(streamtest.Request{}.Filled())
	}
	if got := d.workers[0].vm.clusters[fakeCluster].health.Ejections(); got == 0 {
		t.Error("no ejection")
	}
}

// A request that the gateway answers before it is decided has no reason to show.
func TestHeldRequestShowsNoReason(t *testing.T) {
	d := startFake(t, 1, 2, tokensConfig)
	c := &fakeClient{d.workers[0].open(streamtest.Request{Unended: true}.Filled())}
	c.details = "stream_idle_timeout"
	c.answer(streamtest.Result{Status: 504})
	if got, ok := c.result.Headers["x-warmgate-reason"]; ok {
		t.Errorf("reason %q", got)
	}
	if got := d.metrics.decisions(); len(got) != 1 || got["body_late"] != 1 {
		t.Errorf("decisions %v", got)
	}
	d.drained()
}
