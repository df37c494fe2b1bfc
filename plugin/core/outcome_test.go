package core

import (
	"strconv"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/plugin/process"
	"github.com/warmgate/warmgate/plugin/stats"
)

// An endpoint that hangs loses its share although its clients, not the gateway, end the requests.
func TestHungEndpoint(t *testing.T) {
	d := startFake(t, 1, 4, requestsConfig)
	hung := map[*fakeStream]time.Duration{}
	lost, last := 0, 0
	const requests = 600
	for i := range requests {
		c := d.workers[0].open(streamtest.Request{}.Filled())
		d.advance(process.TickPeriod)
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
	if got := d.metrics.values[stats.Ejections+";cluster="+fakeCluster]; got != 0 {
		t.Errorf("%d ejections for what clients did", got)
	}
}

// An answer of a later filter or of the gateway itself does not count as a failure of the chosen endpoint.
func TestAnswersOfTheGateway(t *testing.T) {
	for name, spoil := range map[string]func(*fakeDriver){
		"a later filter answers 429": func(d *fakeDriver) {
			d.workers[0].open(streamtest.Request{Local: 429}.Filled())
		},
		"a later filter answers 503": func(d *fakeDriver) {
			d.workers[0].open(streamtest.Request{Local: 503}.Filled())
		},
		"a circuit breaker": func(d *fakeDriver) {
			c := d.workers[0].open(streamtest.Request{}.Filled())
			c.answer(503, "upstream_reset_before_response_started{overflow}")
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

// A later filter's answer to a request for a failing endpoint does not show that the endpoint works again.
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
	var all []*fakeStream
	for range 24 {
		all = append(all, d.workers[0].open(streamtest.Request{}.Filled()))
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
	if got := d.workers[0].vm.Clusters[fakeCluster].Health.Ejections(); got != 0 {
		t.Errorf("%d ejections", got)
	}
}

// An endpoint that serves no request, and whose requests are all served elsewhere by retries, is ejected after half a
// minute.
func TestEndpointThatServesNothingIsEjected(t *testing.T) {
	d := startFake(t, 1, 3, requestsConfig)
	health := func() uint64 { return d.workers[0].vm.Clusters[fakeCluster].Health.Ejections() }
	for start := d.now; d.now-start < 40*time.Second; {
		var all []*fakeStream
		for range 12 {
			all = append(all, d.workers[0].open(streamtest.Request{}.Filled()))
		}
		for _, c := range all {
			if c.Upstream() == 0 {
				c.Retry()
			}
			c.Finish()
		}
		d.advance(time.Second)
		if health() > 0 && d.now-start < 30*time.Second {
			t.Fatalf("ejected after %v", d.now-start)
		}
	}
	if health() == 0 {
		t.Error("no ejection")
	}
}

// A connection failure without a retry counts as a failure, also when the request was not complete.
func TestRefusingEndpointIsEjected(t *testing.T) {
	d := startFake(t, 1, 2, requestsConfig)
	d.endpoints[0].refuses = true
	for range 80 { // those on the other endpoint stay open, so the one that fails at once is the less busy one
		d.workers[0].open(streamtest.Request{Frames: []string{"{"}, Unended: true}.Filled())
	}
	if got := d.workers[0].vm.Clusters[fakeCluster].Health.Ejections(); got == 0 {
		t.Error("no ejection")
	}
}

// A reset by the server while the client has stalled may be caused by the client: it does not count as a failure of the
// endpoint.
func TestResetOfAnUnfinishedRequest(t *testing.T) {
	for _, unended := range []bool{true, false} {
		d := startFake(t, 1, 4, requestsConfig)
		c := d.workers[0].open(streamtest.Request{Frames: []string{"{"}, Unended: unended}.Filled())
		addr := d.Addr(c.Upstream())
		d.advance(3 * process.TickPeriod)
		c.ResetByUpstream()
		if blamed := d.weights()[addr] < 1; blamed == unended {
			t.Errorf("the request has not all come %v, held against the endpoint %v", unended, blamed)
		}
		d.drained()
	}
}

// An endpoint that resets requests that are still being sent gets no more requests for that, and is not ejected for it.
func TestEndpointThatResetsUploads(t *testing.T) {
	d := startFake(t, 1, 4, requestsConfig)
	got := 0
	var open []*fakeStream
	for range 200 {
		c := d.workers[0].open(streamtest.Request{Frames: []string{"{"}, Unended: true}.Filled())
		if c.Upstream() == 0 {
			got++
			c.ResetByUpstream()
			continue
		}
		open = append(open, c)
		if len(open) > 12 {
			open[0].Send("}", true)
			open[0].Finish()
			open = open[1:]
		}
		d.advance(process.TickPeriod)
	}
	if got > 50 {
		t.Errorf("the endpoint that resets got %d of 200 requests", got)
	}
	if n := d.workers[0].vm.Clusters[fakeCluster].Health.Ejections(); n > 0 {
		t.Errorf("%d ejections", n)
	}
}

// A full endpoint whose requests are retried elsewhere counts as alive as long as it answers any.
func TestFullEndpointWithLongAnswersIsNotEjected(t *testing.T) {
	d := startFake(t, 1, 3, requestsConfig)
	var long *fakeStream
	for long == nil {
		c := d.workers[0].open(streamtest.Request{}.Filled())
		if c.Upstream() == 0 {
			c.Head(200)
			c.Data("a token")
			long = c
		}
	}
	for start := d.now; d.now-start < time.Minute; d.advance(time.Second) {
		c := d.workers[0].open(streamtest.Request{}.Filled())
		if c.Upstream() == 0 {
			c.Retry()
		}
		c.Finish()
	}
	if n := d.workers[0].vm.Clusters[fakeCluster].Health.Ejections(); n > 0 {
		t.Errorf("%d ejections", n)
	}
	long.Finish()
	if n := len(d.workers[0].vm.Clusters[fakeCluster].Answering); n != 0 {
		t.Errorf("%d endpoints count as answering after the last answer", n)
	}
}

// An endpoint may be reached under another address than is listed: with LOGICAL_DNS, or when it has several. That is no
// retry.
func TestServedUnderAnotherAddress(t *testing.T) {
	d := startFake(t, 1, 3, requestsConfig)
	for range 20 {
		c := d.workers[0].open(streamtest.Request{}.Filled())
		c.served = "192.0.2.7:8000"
		c.Head(200)
		if load := d.Load(c.Upstream()); load.Requests != 1 {
			t.Fatalf("%d requests are counted at the chosen endpoint, want 1", load.Requests)
		}
		c.Finish()
	}
	for addr, w := range d.weights() {
		if w != 1 {
			t.Errorf("%s has weight %v", addr, w)
		}
	}
	if moves := d.metrics.values[stats.Moves]; moves != 0 {
		t.Errorf("%d moves", moves)
	}
	d.drained()
}

// One client whose requests fail, at once and wherever they are sent, ejects no endpoint and moves no request of
// others.
func TestBadRequestsOfOneClient(t *testing.T) {
	for _, status := range []int{500, 400, 501} {
		d := startFake(t, 1, 8, requestsConfig)
		var honest []*fakeStream
		counts := map[int]int{}
		for i := range 600 {
			if i%3 == 0 {
				c := d.workers[0].open(streamtest.Request{Client: "127.0.0.9"}.Filled())
				c.Head(status)
				c.Finish()
				continue
			}
			r := streamtest.Request{Client: "127.0.0." + strconv.Itoa(10+i%20)}
			c := d.workers[0].open(r.Filled())
			counts[c.Upstream()]++
			if honest = append(honest, c); len(honest) > 40 {
				honest[0].Finish()
				honest = honest[1:]
			}
			d.advance(process.TickPeriod)
		}
		if n := d.workers[0].vm.Clusters[fakeCluster].Health.Ejections(); n > 0 {
			t.Errorf("%d: %d ejections", status, n)
		}
		for i := range 8 {
			if counts[i] < 40 || counts[i] > 60 {
				t.Errorf("%d: requests of the others per endpoint %v, want about 50 each", status, counts)
				break
			}
		}
		for _, c := range honest {
			c.Finish()
		}
		d.drained()
	}
}

// An endpoint that refuses everything at once is ejected; when all refuse the same client's requests, none is.
func TestRefusals(t *testing.T) {
	for _, everywhere := range []bool{false, true} {
		d := startFake(t, 1, 4, requestsConfig)
		got := 0
		var open []*fakeStream
		for i := range 400 {
			c := d.workers[0].open(streamtest.Request{Client: "127.0.0." + strconv.Itoa(10+i%5)}.Filled())
			if c.Upstream() == 0 {
				got++
			}
			if c.Upstream() == 0 || everywhere {
				c.Head(404)
				c.Finish()
				continue
			}
			if open = append(open, c); len(open) > 20 {
				open[0].Finish()
				open = open[1:]
			}
			d.advance(process.TickPeriod)
		}
		if !everywhere && got > 40 {
			t.Errorf("the endpoint that answers 404 got %d of 400 requests", got)
		}
		ejections := d.workers[0].vm.Clusters[fakeCluster].Health.Ejections()
		if everywhere && ejections > 0 || !everywhere && ejections == 0 {
			t.Errorf("%d ejections, refused everywhere %v", ejections, everywhere)
		}
	}
}
