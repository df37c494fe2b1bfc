package core

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/fakehost"
	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/stats"
)

// queueConfig returns a configuration under which one request is in flight at each endpoint and others wait.
func queueConfig(queue string, members ...string) string {
	if queue != "" {
		queue = "," + queue
	}
	return `{"lb_policy":"global_least_request","lb_config":{"debug_headers":true,"max_inflight":1,` +
		strings.Join(append(members, ""), ",") + `"queue":{"max_wait":"10s"` + queue + `},"health":{"slow_start":0}}}`
}

// twoClasses are the members of a queue with two classes.
const twoClasses = `"classes":{"interactive":8,"batch":1},"class_header":"x-class"`

func inClass(name string) streamtest.Request {
	return streamtest.Request{Headers: [][2]string{{"x-class", name}}}
}

// startQueue returns a process whose endpoints are all full, and the requests that fill them.
func startQueue(t *testing.T, workers, endpoints int, config string) (*fakeDriver, []*fakeStream) {
	t.Helper()
	d := startFake(t, workers, endpoints, config)
	d.advance(time.Second)
	var busy []*fakeStream
	for i := range endpoints {
		c := d.client(i%workers, streamtest.Request{})
		if c.Upstream() < 0 {
			t.Fatalf("request %d is not served: %+v", i, c.Result())
		}
		busy = append(busy, c)
	}
	return d, busy
}

// wantWaiting fails the test unless the request waits.
func (d *fakeDriver) wantWaiting(clients ...*fakeStream) {
	d.t.Helper()
	for i, c := range clients {
		if !c.Held() || c.Ended || c.Upstream() >= 0 {
			d.t.Fatalf("request %d of %d does not wait: held %v, at endpoint %d, %+v", i, len(clients), c.Held(),
				c.Upstream(), c.Result())
		}
	}
}

// wantNoneWaits fails the test unless nothing is left of requests that waited.
func (d *fakeDriver) wantNoneWaits() {
	d.t.Helper()
	for i, w := range d.workers {
		if r := w.vm.Waiters; len(r.Held) != 0 || r.Bytes != 0 {
			d.t.Errorf("worker %d: %d requests wait, with %d bytes", i, len(r.Held), r.Bytes)
		}
		for _, cl := range w.vm.Clusters {
			if n := w.vm.Stores.Local.Queue(d.now, cl.Name).Waiting; n != 0 || cl.Waiting != 0 {
				d.t.Errorf("worker %d: %d requests are in the queue, and %d of its own", i, n, cl.Waiting)
			}
		}
	}
}

// wantRefused fails the test unless the plugin has refused the request.
func (s *fakeStream) wantRefused(t *testing.T, reason string) {
	t.Helper()
	body := fmt.Sprintf(`"type":"overloaded_error","code":%q}}`, reason)
	if r := s.Result(); s.Upstream() >= 0 || !s.Ended || r.Status != 429 || !strings.HasSuffix(r.Body, body) ||
		r.Headers["x-warmgate-reason"] != reason || r.Headers["retry-after"] == "" {
		t.Errorf("at endpoint %d, ended %v, %+v; want it refused: %s", s.Upstream(), s.Ended, r, reason)
	}
}

// What one worker frees, a request of another one gets within a moment: it is woken, or else finds it at a tick.
func TestWaitsForAnotherWorker(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		d, busy := startQueue(t, 2, 1, queueConfig(""))
		d.deaf = deaf
		c := d.client(1, streamtest.Request{})
		d.advance(3 * time.Second)
		d.wantWaiting(c)
		busy[0].Finish()
		most := wakeTime
		if deaf {
			most = lb.PollPeriod
		}
		d.wantWaiting(c)
		if d.advance(most); c.Upstream() != 0 {
			t.Fatalf("deaf %v: not served %v after there is room", deaf, most)
		}
		c.Finish()
		if wait := c.Result().Headers["x-warmgate-wait-ms"]; !strings.HasPrefix(wait, "30") || len(wait) != 4 {
			t.Errorf("deaf %v: waited for %s ms", deaf, wait)
		}
		d.drained()
		d.wantNoneWaits()
	}
}

// A request is granted what its own worker frees at once, within the callback of the other request.
func TestWaitsForItsOwnWorker(t *testing.T) {
	d, busy := startQueue(t, 1, 2, queueConfig(""))
	first, second := d.client(0, streamtest.Request{}), d.client(0, streamtest.Request{})
	d.wantWaiting(first, second)
	busy[1].Finish()
	if first.Upstream() != 1 {
		t.Errorf("the first is at endpoint %d", first.Upstream())
	}
	d.wantWaiting(second)
	first.ResetByClient()
	if second.Upstream() != 1 {
		t.Errorf("the second is at endpoint %d", second.Upstream())
	}
	second.Finish()
	busy[0].Finish()
	if d.wakes != 0 {
		t.Errorf("other workers were woken %d times", d.wakes)
	}
	d.drained()
	d.wantNoneWaits()
}

// Wherever in the request its wait begins, the endpoint gets all of it afterwards.
func TestWaitsAnywhere(t *testing.T) {
	for name, w := range waits {
		t.Run(name, func(t *testing.T) {
			config := queueConfig("")
			if w.config != "" {
				config = queueConfig("", w.config)
			}
			d, busy := startQueue(t, 2, 1, config)
			c := d.client(1, w.request)
			d.advance(time.Second)
			d.wantWaiting(c)
			if c.Received().Body != "" {
				t.Errorf("the endpoint has %q", c.Received().Body)
			}
			busy[0].Finish()
			d.advance(time.Millisecond)
			got, want := c.Received(), strings.Join(w.request.Frames, "")
			if c.Held() || !got.Ended || got.Body != want {
				t.Fatalf("held %v, the endpoint has %q, all of it: %v", c.Held(), got.Body, got.Ended)
			}
			if sent := fakehost.Headers(w.request.Trailers); len(sent) > 0 && !maps.Equal(got.Trailers, sent.Map()) {
				t.Errorf("trailers %v", got.Trailers)
			}
			c.Finish()
			d.drained()
			d.wantNoneWaits()
		})
	}
}

// While a request waits its worker ticks often, and else as ever.
func TestTicksWhileRequestsWait(t *testing.T) {
	d, busy := startQueue(t, 2, 1, queueConfig(""))
	c := d.client(1, streamtest.Request{})
	d.advance(time.Second)
	before := [2]int{d.workers[0].ticks, d.workers[1].ticks}
	d.advance(time.Second)
	if got := d.workers[1].ticks - before[1]; got < 38 || got > 41 {
		t.Errorf("the worker ticks %d times a second while a request waits", got)
	}
	if got := d.workers[0].ticks - before[0]; got > 10 {
		t.Errorf("the other worker ticks %d times a second", got)
	}
	busy[0].Finish()
	d.advance(time.Second)
	before[1] = d.workers[1].ticks
	if d.advance(time.Second); d.workers[1].ticks-before[1] > 10 {
		t.Errorf("the worker ticks %d times a second when none waits", d.workers[1].ticks-before[1])
	}
	c.Finish()
}

// A request is refused when it has waited for as long as it may, with the time in which its like get through.
func TestQueueTimeout(t *testing.T) {
	for name, header := range map[string][2]string{
		"max_wait":               {"x-none", ""},
		"a client's timeout":     {"x-envoy-upstream-rq-timeout-ms", "4000"},
		"a gateway's timeout":    {"x-envoy-expected-rq-timeout-ms", "4000"},
		"no timeout":             {"x-envoy-upstream-rq-timeout-ms", "0"},
		"deadline in ms":         {"x-deadline", "4000"},
		"deadline in seconds":    {"x-deadline", "4s"},
		"a deadline that is far": {"x-deadline", "9999999999999999"},
		"no deadline":            {"x-deadline", "soon"},
	} {
		d, busy := startQueue(t, 1, 1, queueConfig(`"deadline_header":"x-deadline"`))
		wait := 10 * time.Second
		if header[1] == "4000" || header[1] == "4s" {
			wait = 4 * time.Second
		}
		c := d.client(0, streamtest.Request{Headers: [][2]string{header}})
		d.advance(wait - lb.PollPeriod)
		d.wantWaiting(c)
		d.advance(2 * lb.PollPeriod)
		c.wantRefused(t, "queue_timeout")
		if !strings.Contains(d.access[0], " class=default wait=") {
			t.Errorf("%s: the access log has %q", name, d.access)
		}
		busy[0].Finish()
		d.drained()
		d.wantNoneWaits()
	}
}

// A deadline counts from the arrival of the request, and the mean time of an answer is kept for the answer.
func TestDeadline(t *testing.T) {
	config := queueConfig(`"deadline_header":"x-deadline"`, `"unit":"tokens","body_timeout":"30s"`)
	d := startFake(t, 1, 1, config)
	d.advance(time.Second)
	for range 3 {
		c := d.client(0, streamtest.Request{})
		d.advance(3 * time.Second)
		c.Finish()
	}
	with := func(deadline string) streamtest.Request {
		return streamtest.Request{Headers: [][2]string{{"x-deadline", deadline}}, Unended: true}
	}
	busy := d.client(0, streamtest.Request{})
	c, late, over := d.client(0, with("8s")), d.client(0, with("5s")), d.client(0, with("2s"))
	d.advance(2500 * time.Millisecond)
	for _, s := range []*fakeStream{c, late, over} {
		s.Send(`{"prompt":"a"}`, true)
	}
	late.wantRefused(t, "deadline_unreachable")
	over.wantRefused(t, "deadline_unreachable")
	d.advance(2400 * time.Millisecond)
	d.wantWaiting(c)
	d.advance(200 * time.Millisecond)
	c.wantRefused(t, "queue_timeout")
	busy.Finish()
	// An endpoint that is open is worth a try, unless the deadline is over.
	c = d.client(0, streamtest.Request{Headers: [][2]string{{"x-deadline", "10ms"}}})
	if c.Upstream() != 0 {
		t.Errorf("refused although there is room: %+v", c.Result())
	}
	c.Finish()
	d.now += 90 * time.Millisecond // since the last tick
	c = d.client(0, streamtest.Request{Headers: [][2]string{{"x-deadline", "10ms"}}})
	if c.Upstream() != 0 {
		t.Errorf("refused although it has just come: %+v", c.Result())
	}
	c.Finish()
	d.client(0, streamtest.Request{Headers: [][2]string{{"x-deadline", "0"}}}).wantRefused(t, "deadline_unreachable")
	d.drained()
}

// Of a full queue the newest of a lower class makes room.
func TestFullQueue(t *testing.T) {
	d, busy := startQueue(t, 2, 1, queueConfig(`"max_length":2,`+twoClasses))
	first, second := d.client(0, inClass("batch")), d.client(1, inClass("unknown"))
	d.wantWaiting(first, second)
	d.client(0, inClass("batch")).wantRefused(t, "max_queue_size_exceeded")
	urgent := d.client(0, inClass("interactive"))
	d.wantWaiting(first, urgent)
	d.advance(lb.PollPeriod)
	second.wantRefused(t, "max_queue_size_exceeded")
	name := stats.Refusals + ";cluster=" + fakeCluster + ";class=batch;reason=max_queue_size_exceeded"
	if n := d.metrics.values[name]; n != 2 {
		t.Errorf("%d of class batch were refused, want 2", n)
	}
	busy[0].Finish()
	if urgent.Upstream() != 0 {
		t.Error("the higher class waits")
	}
	urgent.Finish()
	first.Finish()
	if class := urgent.Result().Headers["x-warmgate-class"]; class != "interactive" {
		t.Errorf("class %q", class)
	}
	d.drained()
	d.wantNoneWaits()
}

// What a gateway holds of waiting requests is bounded, and each VM holds its part. A length that is only announced
// counts for no more than what the gateway reads of it.
func TestBytesOfWaitingRequests(t *testing.T) {
	d, busy := startQueue(t, 2, 2, queueConfig(`"max_bytes":"4MiB"`))
	d.advance(2 * time.Second)
	if n := d.workers[0].vm.Waiters.Owners; n != 2 {
		t.Fatalf("%d owners", n)
	}
	announces := streamtest.Request{Headers: [][2]string{{"content-length", "9999999999"}}, Unended: true}
	first, second := d.client(0, announces), d.client(0, announces)
	d.wantWaiting(first, second)
	d.client(0, announces).wantRefused(t, "max_queue_size_exceeded")
	empty, other := d.client(0, streamtest.Request{}), d.client(1, announces)
	d.wantWaiting(empty, other)
	first.ResetByClient()
	again := d.client(0, announces)
	d.wantWaiting(again)
	for _, c := range []*fakeStream{second, empty, other, again} {
		c.ResetByClient()
	}
	d.client(0, streamtest.Request{}).ResetByClient()
	for _, c := range busy {
		c.Finish()
	}
	d.drained()
	d.wantNoneWaits()
}

// A body that grows while its request waits may exceed what a gateway holds.
func TestBodyThatGrowsWhileItWaits(t *testing.T) {
	d, busy := startQueue(t, 1, 1, queueConfig(`"max_bytes":65536`, `"unit":"tokens","max_inspect_bytes":1024`))
	open := streamtest.Request{Frames: []string{`{"prompt":"` + strings.Repeat("a", 30000)}, Unended: true}
	c, other := d.client(0, open), d.client(0, open)
	d.wantWaiting(c, other)
	c.Send(strings.Repeat("b", 4000), false)
	d.wantWaiting(c, other)
	c.Send(strings.Repeat("b", 4000), false)
	c.wantRefused(t, "max_queue_size_exceeded")
	d.wantWaiting(other)
	busy[0].Finish()
	other.Send(`"}`, true)
	if want := len(open.Frames[0]) + 2; len(other.Received().Body) != want || !other.Received().Ended {
		t.Errorf("the endpoint has %d bytes, want %d", len(other.Received().Body), want)
	}
	other.Finish()
	d.drained()
	d.wantNoneWaits()
}
