package core

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/plugin/process"
	"github.com/warmgate/warmgate/plugin/stats"
	"github.com/warmgate/warmgate/plugin/stores"
)

// startZero returns a process whose cluster has no endpoint any more.
func startZero(t *testing.T, workers int, redis bool, queue string) *fakeDriver {
	t.Helper()
	if queue != "" {
		queue = "," + queue
	}
	config := queueConfig(`"from_zero":true` + queue)
	d := &fakeDriver{fakeProcess: newFakeProcess(t, workers)}
	d.SetEndpoints(make([]streamtest.Endpoint, 1))
	if redis {
		config = withRedis(t, d, config)
	}
	if !d.configure(config) {
		t.Fatal("refused")
	}
	d.advance(time.Second)
	for i := range workers {
		c := d.client(i, streamtest.Request{})
		d.advance(100 * time.Millisecond)
		c.Finish()
	}
	d.SetEndpoints(nil)
	d.advance(time.Second)
	return d
}

// Requests wait while there is no endpoint, and are served within a tick of the first one, by class and in the order in
// which they came. Autoscalers see them meanwhile, and that one request is enough.
func TestWaitsFromZero(t *testing.T) {
	for _, redis := range []bool{false, true} {
		d := startZero(t, 1, redis, twoClasses+`,"order":"strict"`)
		var waits []*fakeStream
		for i := range 6 {
			waits = append(waits, d.client(0, inClass([]string{"batch", "interactive"}[i/3])))
			d.advance(10 * time.Millisecond)
		}
		d.advance(5 * time.Second)
		d.wantWaiting(waits...)
		for class, want := range map[string]uint64{"interactive": 3, "batch": 3} {
			if n := d.Gauge(stats.Queue + ";cluster=" + fakeCluster + ";class=" + class); n != want {
				t.Errorf("Redis %v: %d of %s wait, want %d", redis, n, class, want)
			}
		}
		if n := d.Gauge(stats.Parallelism + ";cluster=" + fakeCluster); n != 1 {
			t.Errorf("Redis %v: %d requests at once are suggested", redis, n)
		}
		d.SetEndpoints(make([]streamtest.Endpoint, 1))
		if d.advance(process.TickPeriod); redis { // who was planned a moment ago is not at once again
			d.advance(2 * process.TickPeriod)
		}
		var order []int
		for range 20 {
			for i, c := range waits {
				if c.Upstream() == 0 && !c.Ended {
					order = append(order, i)
					c.Finish()
				}
			}
			if d.advance(10 * time.Millisecond); len(order) == 0 {
				t.Fatalf("Redis %v: none is served", redis)
			}
		}
		if d.advance(time.Second); !redis && !slices.Equal(order, []int{3, 4, 5, 0, 1, 2}) || len(order) < len(waits) {
			t.Errorf("Redis %v: served in the order %v", redis, order)
		}
		if got := d.metrics.decisions(); got["chosen"] != 7 || len(got) != 1 {
			t.Errorf("Redis %v: counted as %v", redis, got)
		}
		d.drained()
		d.wantNoneWaits()
	}
}

// What waits in vain for a first endpoint is refused as in any queue, and what the queue has no room for.
func TestWaitsFromZeroInVain(t *testing.T) {
	d := startZero(t, 1, false, `"max_length":1`)
	first, next := d.client(0, streamtest.Request{}), d.client(0, streamtest.Request{})
	next.wantRefused(t, "max_queue_size_exceeded")
	d.advance(9900 * time.Millisecond)
	d.wantWaiting(first)
	d.advance(200 * time.Millisecond)
	first.wantRefused(t, "queue_timeout")
	if models := d.client(0, streamtest.Request{Method: "GET", Path: "/v1/models"}); models.Result().Status != 503 {
		t.Errorf("a call that computes nothing: %+v", models.Result())
	}
	d.drained()
	d.wantNoneWaits()
}

// An endpoint that is draining is none, and one that is unhealthy is not one yet for as long as requests wait at most.
// One that becomes unhealthy is the gateway's business, and so is a cluster without endpoints unless it is configured.
func TestEndpointsAtZero(t *testing.T) {
	const waits, left, served = "waits", "left to the gateway", "served"
	draining := streamtest.Endpoint{State: streamtest.Draining}
	unhealthy := streamtest.Endpoint{State: streamtest.Unhealthy}
	for name, c := range map[string]struct {
		zero   bool // it had none before
		list   []streamtest.Endpoint
		after  time.Duration
		wanted string
	}{
		"draining":                         {false, []streamtest.Endpoint{draining}, 0, waits},
		"draining, a new one not healthy":  {false, []streamtest.Endpoint{draining, unhealthy}, 0, waits},
		"one of three is healthy at first": {true, []streamtest.Endpoint{unhealthy, unhealthy, {}}, 0, served},
		"unhealthy":                        {false, []streamtest.Endpoint{unhealthy}, 0, left},
		"unhealthy at first":               {true, []streamtest.Endpoint{unhealthy, draining}, 9 * time.Second, waits},
		"unhealthy from then on":           {true, []streamtest.Endpoint{unhealthy}, 11 * time.Second, left},
		"ejected by the gateway":           {true, []streamtest.Endpoint{{State: streamtest.Ejected}}, 0, left},
		"the first one of others":          {true, []streamtest.Endpoint{draining, {}}, 0, served},
	} {
		d := startFake(t, 1, 1, queueConfig(`"from_zero":true`))
		if c.zero {
			d.SetEndpoints(nil)
			d.advance(time.Second)
			d.client(0, streamtest.Request{}).ResetByClient()
		}
		d.SetEndpoints(c.list)
		d.advance(c.after)
		r := d.client(0, streamtest.Request{})
		got := left
		switch {
		case r.Held():
			got = waits
		case r.Upstream() == len(c.list)-1 && c.wanted == served:
			got = served
		}
		if got != c.wanted {
			t.Errorf("%s: %s, want that it %s: %+v", name, got, c.wanted, r.Result())
		}
	}
	d := startFake(t, 1, 0, queueConfig(""))
	if c := d.client(0, streamtest.Request{}); c.Result().Status != 503 || d.metrics.decisions()["no_endpoints"] != 1 {
		t.Errorf("as it is not configured: %+v", c.Result())
	}
}

// Requests that wait for a full endpoint go on waiting when that leaves, and are served by those that come in its
// place: none is lost while a cluster goes from one endpoint to none, to three and back to one.
func TestScalesToZeroAndBack(t *testing.T) {
	for _, redis := range []bool{false, true} {
		d := startZero(t, 2, redis, "")
		d.SetEndpoints(make([]streamtest.Endpoint, 1))
		var clients []*fakeStream
		sizes := []int{1, 0, 3, 1}
		for step := range 400 {
			if step%100 == 0 {
				d.SetEndpoints(make([]streamtest.Endpoint, sizes[step/100]))
			}
			if step%4 == 0 {
				clients = append(clients, d.client(step/4%2, streamtest.Request{}))
			}
			d.advance(20 * time.Millisecond)
			for i, c := range clients {
				if c.Reached && !c.Ended && (i+step)%3 == 0 {
					c.Finish()
				}
			}
		}
		for range 100 {
			d.advance(50 * time.Millisecond)
			for _, c := range clients {
				if c.Reached && !c.Ended {
					c.Finish()
				}
			}
		}
		for i, c := range clients {
			if r := c.Result(); !c.Ended || r.Status != 200 {
				t.Fatalf("Redis %v: request %d of %d: ended %v, %+v", redis, i, len(clients), c.Ended, r)
			}
		}
		d.drained()
		d.wantNoneWaits()
	}
}

// A view may be outdated, by which there is an endpoint still: the first request for which the gateway has none is
// lost, and those that come after it wait until there is another view; or are tried again, one in two seconds.
func TestOutdatedAtZero(t *testing.T) {
	d := startFake(t, 1, 1, queueConfig(`"from_zero":true`))
	d.endpoints = nil // and the plugin does not know it yet
	if lost := d.client(0, streamtest.Request{}); lost.Result().Status != 503 {
		t.Fatalf("the first: %+v", lost.Result())
	}
	var waits []*fakeStream
	for range 2 {
		waits = append(waits, d.client(0, streamtest.Request{}))
		d.advance(300 * time.Millisecond)
	}
	d.wantWaiting(waits...)
	d.advance(3 * time.Second)
	if waits[0].Result().Status != 503 {
		t.Errorf("it is not tried again: %+v", waits[0].Result())
	}
	d.wantWaiting(waits[1])
	d.SetEndpoints(make([]streamtest.Endpoint, 1))
	if d.advance(process.TickPeriod); waits[1].Upstream() != 0 {
		t.Errorf("the next one: %+v", waits[1].Result())
	}
	waits[1].Finish()
	d.drained()
	d.wantNoneWaits()
}

// What is explained of a request is what comes of it, also where there is no endpoint.
func TestExplainedAtZero(t *testing.T) {
	d := startZero(t, 1, false, "")
	e := d.explain(0, streamtest.Request{})
	c := d.client(0, streamtest.Request{})
	d.wantWaiting(c)
	compareExplained(t, e, c)
	c.ResetByClient()
	d.drained()
}

// Where the first endpoint has no sample yet, it is chosen all the same; and a worker that had no request while there
// was none has its requests wait, too, for one that is not healthy yet.
func TestFirstEndpoint(t *testing.T) {
	config := strings.Replace(queueConfig(`"from_zero":true`), "global_least_request", "endpoint_metrics", 1)
	d := startFake(t, 2, 0, config)
	first := d.client(0, streamtest.Request{})
	d.SetEndpoints([]streamtest.Endpoint{{State: streamtest.Unhealthy}})
	d.advance(time.Second)
	other := d.client(1, streamtest.Request{})
	d.wantWaiting(first, other)
	d.SetEndpoints(make([]streamtest.Endpoint, 1))
	d.advance(2 * process.TickPeriod)
	if first.Upstream() != 0 || d.metrics.decisions()["no_metrics"] != 0 {
		t.Errorf("without a sample: %+v, counted as %v", first.Result(), d.metrics.decisions())
	}
	first.Finish()
	d.advance(time.Second)
	if other.Upstream() != 0 {
		t.Errorf("at the other worker: %+v", other.Result())
	}
	other.Finish()
	d.drained()
}

// What waits for an endpoint by a view that is outdated waits no longer once it is known that all are sick.
func TestSickIsNotZero(t *testing.T) {
	d := startFake(t, 1, 1, queueConfig(`"from_zero":true`))
	d.endpoints = nil
	d.client(0, streamtest.Request{})
	waits := d.client(0, streamtest.Request{})
	d.wantWaiting(waits)
	d.endpoints = []*fakeEndpoint{{Endpoint: d.view.Endpoints[0]}}
	d.SetEndpoints([]streamtest.Endpoint{{State: streamtest.Unhealthy}})
	if d.advance(time.Second); waits.Held() {
		t.Error("it waits for one that is sick")
	}
}

// Once nothing waits any more, no first endpoint is suggested.
func TestNothingIsSuggestedInVain(t *testing.T) {
	d := startZero(t, 1, false, "")
	d.client(0, streamtest.Request{}).ResetByClient()
	d.advance(2 * stores.HeartbeatPeriod)
	if n := d.Gauge(stats.Parallelism + ";cluster=" + fakeCluster); n != 0 {
		t.Errorf("%d requests at once are suggested", n)
	}
}

// Once all endpoints that there were have gone, their gauges are at rest, and those of the next ones show what waited
// for them, though no other request has come.
func TestGaugesFromZero(t *testing.T) {
	d := startZero(t, 1, false, "")
	c := d.client(0, streamtest.Request{})
	d.SetEndpoints(make([]streamtest.Endpoint, 1))
	d.advance(stores.HeartbeatPeriod + time.Second)
	if c.Upstream() != 0 {
		t.Fatalf("not served: %+v", c.Result())
	}
	if n := d.Gauge(stats.Inflight + ";cluster=" + fakeCluster + ";endpoint=" + d.Addr(0)); n != 1 {
		t.Errorf("%d in flight", n)
	}
}
