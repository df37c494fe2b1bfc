package core

import (
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/process"
	"github.com/warmgate/warmgate/plugin/response"
	"github.com/warmgate/warmgate/plugin/stats"
)

// A request that is over while it waits frees its place at once, and its endpoint is not blamed.
func TestLeavesTheQueue(t *testing.T) {
	d, busy := startQueue(t, 2, 1, queueConfig(twoClasses))
	left, timeout, last := d.client(0, inClass("")), d.client(1, inClass("batch")), d.client(1, inClass("batch"))
	d.advance(2 * time.Second)
	d.wantWaiting(left, timeout, last)
	left.ResetByClient()
	timeout.in(func() {}) // the gateway answers, as when nothing has happened for stream_idle_timeout
	timeout.answer(504, "")
	if got := timeout.Result().Headers["x-warmgate-reason"]; got != "left_queue" {
		t.Errorf("reason %q", got)
	}
	if n := d.workers[0].vm.Stores.Local.Queue(d.now, fakeCluster).Waiting; n != 1 {
		t.Errorf("%d wait, want 1", n)
	}
	if n := d.metrics.decisions()["left_queue"]; n != 2 {
		t.Errorf("%d have left, want 2", n)
	}
	if n := d.metrics.values[stats.Left+";cluster="+fakeCluster+";class=batch"]; n != 2 {
		t.Errorf("%d of their class have left, want 2", n)
	}
	const want = "host=- reason=left_queue class=batch wait=2000ms policy=global_least_request"
	if got := decisionOf(d.access[0]); got != want {
		t.Errorf("the access log has %q, want %q", got, want)
	}
	busy[0].Finish()
	d.advance(time.Millisecond)
	last.Finish()
	if last.Result().Status != 200 {
		t.Errorf("%+v", last.Result())
	}
	d.drained()
	d.wantNoneWaits()
}

// Requests that wait go on waiting when a new configuration has no queue, or no cap.
func TestQueueIsRemoved(t *testing.T) {
	d, busy := startQueue(t, 2, 1, queueConfig(""))
	waiting := []*fakeStream{d.client(0, streamtest.Request{}), d.client(1, streamtest.Request{})}
	d.advance(time.Second)
	if !d.configure(requestsConfig) {
		t.Fatal("refused")
	}
	d.advance(3 * time.Second)
	d.wantWaiting(waiting...)
	if c := d.client(0, streamtest.Request{}); c.Upstream() != 0 {
		t.Error("a request waits without a queue")
	} else {
		c.Finish()
	}
	busy[0].Finish()
	d.advance(lb.PollPeriod)
	waiting[0].Finish()
	d.advance(lb.PollPeriod)
	waiting[1].Finish()
	for i, c := range waiting {
		if c.Result().Status != 200 {
			t.Errorf("request %d: %+v", i, c.Result())
		}
	}
	d.advance(2 * time.Second)
	if n := d.metrics.values[stats.Queue+";cluster="+fakeCluster+";class=default"]; n != 0 {
		t.Errorf("%d wait", n)
	}
	d.drained()
	d.wantNoneWaits()
}

// An endpoint that is added takes requests that wait already; one that has left takes none.
func TestEndpointsChangeWhileRequestsWait(t *testing.T) {
	d, busy := startQueue(t, 2, 1, queueConfig(""))
	waiting := []*fakeStream{d.client(0, streamtest.Request{}), d.client(1, streamtest.Request{})}
	d.advance(time.Second)
	d.SetEndpoints(make([]streamtest.Endpoint, 2))
	d.advance(4 * process.TickPeriod)
	served := slices.IndexFunc(waiting, func(c *fakeStream) bool { return c.Upstream() == 1 })
	if served < 0 {
		t.Fatal("no request goes to the new endpoint")
	}
	d.wantWaiting(waiting[1-served])
	d.SetEndpoints([]streamtest.Endpoint{{State: streamtest.Unhealthy}, {}})
	busy[0].Finish()
	d.advance(2 * lb.PollPeriod)
	d.wantWaiting(waiting[1-served])
	waiting[served].Finish()
	d.advance(lb.PollPeriod)
	if got := waiting[1-served].Upstream(); got != 1 {
		t.Errorf("the other one is at endpoint %d", got)
	}
	waiting[1-served].Finish()
	if got := waiting[1-served].Result().Headers["x-warmgate-reason"]; got != "chosen" {
		t.Errorf("reason %q", got)
	}
	d.drained()
	d.wantNoneWaits()
}

// In shadow mode the gateway serves every request, and none waits.
func TestShadowDoesNotWait(t *testing.T) {
	d, busy := startQueue(t, 1, 1, queueConfig("", `"shadow":true`))
	c := d.client(0, streamtest.Request{})
	if c.Upstream() < 0 {
		t.Fatal("it waits")
	}
	c.Finish()
	busy[0].Finish()
	if got := c.Result().Headers["x-warmgate-reason"]; got != "shadow" {
		t.Errorf("reason %q", got)
	}
}

// A panic in the answer to one request that waits keeps no other from its own.
func TestPanicAfterAWait(t *testing.T) {
	d, busy := startQueue(t, 1, 2, queueConfig(""))
	waiting := []*fakeStream{d.client(0, streamtest.Request{}), d.client(0, streamtest.Request{})}
	d.fault, d.faultLeft = "Steer", 1
	busy[0].Finish()
	busy[1].Finish()
	d.fault = ""
	d.advance(lb.PollPeriod)
	for i, c := range waiting {
		if c.Upstream() < 0 {
			t.Errorf("request %d still waits", i)
		}
		c.Finish()
	}
	if n := d.metrics.decisions()["panic"]; n != 1 {
		t.Errorf("%d panics, want 1", n)
	}
	d.drained()
	d.wantNoneWaits()
}

// What a request has waited for here is no fault of the endpoint at which it is given up.
func TestWaitIsNotBlamedOnTheEndpoint(t *testing.T) {
	d, busy := startQueue(t, 1, 1, queueConfig(""))
	c := d.client(0, streamtest.Request{})
	d.advance(9 * time.Second)
	busy[0].Finish()
	d.advance(time.Second)
	from := d.endedBy("downstream_remote_disconnect")
	d.effective = from
	v := (&response.State{Reached: true}).Verdict(d.now, c.core.first.SentAt(), &c.core.Body, from)
	d.effective = nil
	if v != lb.Neutral {
		t.Errorf("verdict %v after a second at the endpoint", v)
	}
	c.Finish()
}

// VMs are woken only where requests may wait, and in the name of a configuration that lives.
func TestListening(t *testing.T) {
	d := startFake(t, 1, 1, requestsConfig)
	d.advance(time.Second)
	if len(d.listening) != 0 {
		t.Errorf("%d VMs listen without a queue", len(d.listening))
	}
	if !d.configure(queueConfig("")) {
		t.Fatal("refused")
	}
	w := d.workers[0]
	owner := w.vm.Stores.Owner
	d.advance(process.TickPeriod)
	if len(d.listening) != 2 { // the main thread's VM as well, but not those that have tried configurations
		t.Errorf("%d VMs listen", len(d.listening))
	}
	if d.listening[owner] != w.id {
		t.Errorf("the worker listens as %d", d.listening[owner])
	}
	newer := started(w.vm, 77, "warmgate", requestsConfig)
	d.advance(process.TickPeriod)
	if d.listening[owner] != 77 {
		t.Error("the VM does not listen in the name of the newest configuration")
	}
	newer.OnDone()
	d.advance(process.TickPeriod)
	if d.listening[owner] != w.id {
		t.Error("the VM listens in the name of a configuration that has ended")
	}
}
