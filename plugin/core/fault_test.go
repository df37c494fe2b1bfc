package core

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/metrics"
	"github.com/warmgate/warmgate/plugin/stats"
)

// tokensConfig makes requests wait for their bodies, so that every callback has something to do.
const tokensConfig = `{"lb_policy":"global_least_request","lb_config":{"unit":"tokens","debug_headers":true,` +
	`"body_timeout":"200ms"}}`

// startFake returns a process with a configuration and endpoints.
func startFake(t *testing.T, workers, endpoints int, config string) *fakeDriver {
	t.Helper()
	d := &fakeDriver{fakeProcess: newFakeProcess(t, workers)}
	d.SetEndpoints(make([]streamtest.Endpoint, endpoints))
	if !d.configure(config) {
		t.Fatalf("refused: %s", config)
	}
	return d
}

// drained fails the test unless nothing is in flight or kept for any request.
func (d *fakeDriver) drained() {
	d.t.Helper()
	for _, e := range d.endpoints {
		if load := d.load(e.Addr); load != (lb.Load{}) {
			d.t.Errorf("%s still carries %+v", e.Addr, load)
		}
	}
	for addr, load := range d.redis.loads() {
		if load != (lb.Load{}) && !d.lost {
			d.t.Errorf("in Redis, %s still carries %+v", addr, load)
		}
	}
	for i, w := range d.workers {
		held, open := w.vm.Bodies.Open()
		if n := w.vm.Stores.Local.LeaseCount(); n != 0 || held != 0 || open != 0 {
			d.t.Errorf("worker %d keeps %d leases, %d held and %d open requests", i, n, held, open)
		}
		if b := w.vm.Bodies; b.Kept != 0 || b.Held != 0 {
			d.t.Errorf("worker %d keeps %d bytes of bodies, and its gateway %d", i, b.Kept, b.Held)
		}
		for _, sh := range w.vm.Stores.InRedis {
			if sh.Inflight != 0 {
				d.t.Errorf("worker %d counts %d requests to Redis", i, sh.Inflight)
			}
		}
		for name, cl := range w.vm.Clusters {
			if cl.Inflight != 0 {
				d.t.Errorf("worker %d counts %d requests to %s", i, cl.Inflight, name)
			}
			if len(cl.Answering) != 0 || len(cl.Metrics.Open()) != 0 {
				d.t.Errorf("worker %d: of %s %v are answering, %d requests need metrics", i, name, cl.Answering,
					cl.Metrics.Open())
			}
		}
	}
}

// courses are the ways of a request in which a call of the plugin may panic. Each ends with a response of status 200.
var courses = map[string]func(d *fakeDriver) *fakeStream{
	"served": func(d *fakeDriver) *fakeStream {
		c := d.client(0, streamtest.Request{Frames: []string{`{"prompt":`, `"a"}`}})
		c.Head(200, [2]string{metrics.ORCAHeader, "TEXT num_requests_waiting=1"})
		c.Data("a")
		c.Finish()
		return c
	},
	"retried": func(d *fakeDriver) *fakeStream {
		c := d.client(0, streamtest.Request{Frames: []string{`{"prompt":"a"}`}})
		c.Retry()
		c.Finish()
		return c
	},
	"late": func(d *fakeDriver) *fakeStream {
		c := d.client(0, streamtest.Request{Unended: true})
		d.advance(time.Second)
		c.Send("{}", true)
		c.Finish()
		return c
	},
	"late in part": func(d *fakeDriver) *fakeStream {
		c := d.client(0, streamtest.Request{Frames: []string{"{"}, Unended: true})
		d.advance(time.Second)
		c.Send("}", true)
		c.Finish()
		return c
	},
	"malformed": func(d *fakeDriver) *fakeStream {
		c := d.client(0, streamtest.Request{Frames: []string{`{`}})
		c.Finish()
		return c
	},
}

// Whichever call panics, the request is served and counted once, and nothing of it remains.
func TestPanicAnywhere(t *testing.T) {
	panicAnywhere(t, func(t *testing.T) *fakeDriver { return startFake(t, 1, 3, tokensConfig) })
}

// TestPanicAnywhereWithRedis is the same with requests that wait for Redis.
func TestPanicAnywhereWithRedis(t *testing.T) {
	server := redisserver.StartT(t, redisserver.Options{})
	panicAnywhere(t, func(t *testing.T) *fakeDriver {
		d := startRedis(t, server, 1, 3, `"unit":"tokens","body_timeout":"200ms"`)
		d.redis.wait = 25 * time.Millisecond // an answer that was lost to a panic does not come
		return d
	})
}

// TestPanicAnywhereByMetrics is the same with engines that are scraped, and reports.
func TestPanicAnywhereByMetrics(t *testing.T) {
	panicAnywhere(t, func(t *testing.T) *fakeDriver {
		d := startFake(t, 1, 3, `{"lb_policy":"endpoint_metrics","lb_config":{"unit":"tokens","debug_headers":true,`+
			`"body_timeout":"200ms","metrics":{"orca":true}}}`)
		for i := range 3 {
			d.SetPage(i, vllmPage(i))
		}
		d.serve(0, 200)
		d.advance(time.Second) // metrics are there
		clear(d.metrics.values)
		return d
	})
}

// TestPanicAnywhereBySession is the same with sessions, whose key is in the body or is the client's address.
func TestPanicAnywhereBySession(t *testing.T) {
	panicAnywhere(t, func(t *testing.T) *fakeDriver {
		return startFake(t, 1, 3, `{"lb_policy":"consistent_hash","lb_config":{"debug_headers":true,`+
			`"body_timeout":"200ms","session":{"key":["header:x-none","body:none","client_address"]}}}`)
	})
}

func panicAnywhere(t *testing.T, start func(t *testing.T) *fakeDriver) {
	calls := []string{
		"Now", "View", "Tick", "Cluster", "RequestHeaders", "HoldBody", "RequestBody", "Steer", "Unsteer", "ServedBy",
		"ResponseHeader", "SetResponseHeader", "RemoveResponseHeader", "SetRequestHeader", "Details",
		"SetNote", "Resume",
		"Random", "Scrape", "Client",
	}
	for course, run := range courses {
		fired := 0
		for _, call := range calls {
			for n := 1; n < 200; n++ {
				t.Run(fmt.Sprintf("%s/%s/%d", course, call, n), func(t *testing.T) {
					if panicOnce(t, start(t), run, call, n) {
						fired++
					} else {
						n = 200
					}
				})
			}
		}
		if fired < 8 {
			t.Errorf("%s: only %d calls were there to panic", course, fired)
		}
	}
}

// panicOnce runs a course in which the n-th such call panics, and reports whether there was one.
func panicOnce(t *testing.T, d *fakeDriver, run func(*fakeDriver) *fakeStream, call string, n int) bool {
	d.advance(time.Second)
	d.fault, d.faultLeft = call, n
	s := run(d)
	fired := d.faultLeft <= 0
	d.fault = ""
	if s.Result().Status != 200 || !s.Received().Ended {
		t.Errorf("the client got %d, the endpoint the whole request: %v", s.Result().Status, s.Received().Ended)
	}
	d.advance(2 * time.Second) // writes that shared memory refused are repeated
	d.drained()
	want := uint64(0)
	if fired {
		want = 1
	}
	if got := d.metrics.values[stats.Panics]; got != want {
		t.Errorf("%d panics were counted, want %d: %q", got, want, d.log)
	}
	sum := uint64(0)
	for reason, n := range d.metrics.decisions() {
		if sum += n; reason == "panic" && !fired {
			t.Error("reason panic without a panic")
		}
	}
	if sum != 1 {
		t.Errorf("the request was counted as %v", d.metrics.decisions())
	}
	// The next request is served as usual.
	next := courses["served"](d)
	if host := next.Result().Headers["x-warmgate-host"]; next.Result().Status != 200 || host == "" {
		t.Errorf("the next request: %+v", next.Result())
	}
	d.drained()
	return fired
}

func TestPanicTextKeepsSecrets(t *testing.T) {
	d := startFake(t, 1, 1, `{"enabled":false}`)
	v := d.workers[0].vm
	v.Guard("a callback", func() { panic("prompt: my secret") }, nil)
	v.Guard("a callback", func() { panic(errors.New("my secret")) }, func() { panic("my secret, again") })
	v.Guard("a callback", func() { _ = []int{}[len(d.endpoints)] }, nil)
	log := strings.Join(d.log, "\n")
	if strings.Contains(log, "secret") {
		t.Errorf("the log quotes what was being handled: %s", log)
	}
	for _, want := range []string{
		"a callback: a value of type string", "*errors.errorString", "(recovering)",
		"index out of range",
	} {
		if !strings.Contains(log, want) {
			t.Errorf("the log has nothing of %q:\n%s", want, log)
		}
	}
	if got := d.metrics.values[stats.Panics]; got != 4 {
		t.Errorf("%d panics counted, want 4", got)
	}
}

// If shared memory fails, requests fall back to native balancing, and leases that could not be released are released
// later.
func TestStoreTrouble(t *testing.T) {
	d := startFake(t, 2, 2, `{"lb_policy":"global_least_request","lb_config":{"debug_headers":true}}`)
	open := func() *fakeStream { return d.client(0, streamtest.Request{}) }
	before := open()
	d.kv.Broken = errors.New("host trouble")
	during := open()
	during.Finish()
	if got := during.Result().Headers["x-warmgate-reason"]; during.Result().Status != 200 || got != "store_error" {
		t.Errorf("status %d, reason %q; want 200, store_error", during.Result().Status, got)
	}
	before.Finish()
	d.advance(2 * time.Second)
	d.kv.Broken = nil
	if d.load(d.Addr(before.Upstream())).Requests != 1 {
		t.Error("the release got through to broken memory")
	}
	d.advance(2 * time.Second)
	d.drained()
	after := open()
	after.Finish()
	if got := after.Result().Headers["x-warmgate-reason"]; got != "chosen" {
		t.Errorf("after the trouble, reason %q", got)
	}
	want := map[string]uint64{"chosen": 2, "store_error": 1}
	if got := d.metrics.decisions(); !maps.Equal(got, want) {
		t.Errorf("decisions %v, want %v", got, want)
	}
}

// Another worker that wins every swap costs retries, but no request.
func TestStoreContention(t *testing.T) {
	d := startFake(t, 1, 2, `{"lb_policy":"global_least_request","lb_config":{"debug_headers":true}}`)
	lost := 0
	d.kv.OnSet = func(key string, _ []byte, cas uint32) error {
		if cas != 0 && strings.Contains(key, "/table/") && lost < 5 {
			lost++
			return lb.ErrMismatch
		}
		return nil
	}
	c := d.client(0, streamtest.Request{})
	c.Finish()
	if got := c.Result().Headers["x-warmgate-reason"]; got != "chosen" {
		t.Errorf("reason %q", got)
	}
	d.advance(1100 * time.Millisecond)
	if got := d.metrics.values[stats.Retries]; got != 5 {
		t.Errorf("%d retries counted, want 5", got)
	}
	lost = -1 << 30
	c = d.client(0, streamtest.Request{})
	c.Finish()
	if got := c.Result().Headers["x-warmgate-reason"]; c.Result().Status != 200 || got != "store_error" {
		t.Errorf("status %d, reason %q; want 200, store_error", c.Result().Status, got)
	}
}

// Whichever call panics while a request waits in the queue, or as it is granted an endpoint, it is served and counted
// once, and nothing of it remains.
func TestPanicAnywhereInTheQueue(t *testing.T) {
	calls := []string{
		"Now", "View", "Tick", "Cluster", "RequestHeaders", "RequestBody", "Steer", "Unsteer", "ServedBy", "Random",
		"ResponseHeader", "SetResponseHeader", "SetNote", "Resume", "Wake",
	}
	fired := map[string]int{}
	for workers := 1; workers <= 2; workers++ {
		for _, call := range calls {
			for n := 1; n < 100; n++ {
				more := false
				t.Run(fmt.Sprintf("%d/%s/%d", workers, call, n), func(t *testing.T) {
					more = panicWhileWaiting(t, workers, call, n)
				})
				if !more {
					break
				}
				fired[call]++
			}
		}
	}
	if len(fired) < 11 {
		t.Errorf("only these calls were there to panic: %v", fired)
	}
}

func panicWhileWaiting(t *testing.T, workers int, call string, n int) (fired bool) {
	d, busy := startQueue(t, workers, 1, queueConfig("", `"unit":"tokens"`))
	d.fault, d.faultLeft = call, n
	c := d.client(workers-1, streamtest.Request{Frames: []string{`{"prompt":"a"}`}})
	d.advance(time.Second)
	d.SetEndpoints(make([]streamtest.Endpoint, 1)) // it is planned again
	d.advance(time.Second)
	busy[0].Finish()
	d.advance(100 * time.Millisecond)
	if c.Held() || c.Upstream() != 0 {
		t.Fatalf("held %v, at endpoint %d", c.Held(), c.Upstream())
	}
	c.Finish()
	fired = d.faultLeft <= 0
	d.fault = ""
	if c.Result().Status != 200 || !c.Received().Ended {
		t.Errorf("the client got %+v", c.Result())
	}
	d.advance(2 * time.Second)
	d.drained()
	d.wantNoneWaits()
	sum := uint64(0)
	for _, n := range d.metrics.decisions() {
		sum += n
	}
	if sum != 2 {
		t.Errorf("two requests were counted as %v", d.metrics.decisions())
	}
	return fired
}

// panicIn has one of the first calls of a function of the gateway panic: five requests are served all the same, and
// nothing is left, as emptied checks.
func panicIn(t *testing.T, call string, start func() *fakeDriver, request func(i int) streamtest.Request,
	emptied func(*fakeDriver),
) {
	t.Helper()
	for n := 1; n <= 4; n++ {
		d := start()
		d.fault, d.faultLeft = call, n
		for i := range 5 {
			c := d.client(0, request(i))
			if c.Upstream() < 0 {
				t.Errorf("%s, the %dth: %+v", call, n, c.Result())
			}
			c.Finish()
		}
		if panics := d.Counter(stats.Panics); panics != 1 {
			t.Errorf("%s, the %dth: %d panics", call, n, panics)
		}
		d.fault = ""
		d.advance(time.Second)
		emptied(d)
	}
}
