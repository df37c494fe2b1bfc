package streamtest

import (
	"fmt"
	"strings"
	"time"
)

// queueScenarios are about requests that wait while every endpoint is full.
var queueScenarios = []scenario{
	{name: "waits for room", endpoints: 1, run: func(t *run) {
		t.queue(`"max_wait":"10m"`)
		t.mark(decisions("chosen"))
		for worker := range t.Workers() {
			busy := t.open(1)
			s := t.openIn(worker, "")
			t.wantHeld(s)
			t.finish(busy...)
			t.wantServed(s)
			t.finish(s)
			t.wantReason(s, "chosen")
			h := s.Result().Headers
			if h["x-warmgate-class"] != "default" || h["x-warmgate-wait-ms"] == "" {
				t.Errorf("class %q, waited for %q ms", h["x-warmgate-class"], h["x-warmgate-wait-ms"])
			}
		}
		t.wantDrained()
		t.wantGrown(decisions("chosen"), uint64(2*t.Workers()))
	}},
	{name: "woken at once", endpoints: 1, needs: []Ability{WakeUp, SimulatedTime}, run: func(t *run) {
		t.queue(`"max_wait":"10m"`)
		busy := t.open(1) // by worker 0
		s := t.openIn(1, "")
		t.wantHeld(s)
		t.finish(busy...)
		t.Advance(time.Millisecond)
		if s.Held() {
			t.Error("the request waits for the next tick of its worker")
		}
		t.finish(s)
		t.wantDrained()
	}},
	{name: "first come, first served", endpoints: 1, run: func(t *run) {
		t.queue(`"max_wait":"10m"`)
		busy := t.open(1)
		var waiting []Stream
		for i := range 5 {
			s := t.openIn(i%t.Workers(), "")
			t.wantQueued(s, "default", i+1)
			waiting = append(waiting, s)
		}
		t.finish(busy...)
		for i, s := range waiting {
			t.wantServed(s)
			if i+1 < len(waiting) {
				t.wantHeld(waiting[i+1])
			}
			t.finish(s)
		}
		t.wantDrained()
	}},
	{name: "the higher class first", endpoints: 1, run: func(t *run) {
		t.queue(`"max_wait":"10m","order":"strict",` + classes)
		busy := t.open(1)
		low := t.openIn(0, "batch")
		t.wantQueued(low, "batch", 1)
		high := t.openIn(1, "interactive")
		t.wantQueued(high, "interactive", 1)
		t.finish(busy...)
		t.wantServed(high)
		t.wantHeld(low)
		t.finish(high)
		t.wantServed(low)
		t.finish(low)
		t.wantDrained()
	}},
	{name: "a full queue", endpoints: 1, run: func(t *run) {
		t.queue(`"max_wait":"10m","max_length":1,` + classes)
		busy := t.open(1)
		low := t.openIn(0, "batch")
		t.wantQueued(low, "batch", 1)
		t.wantShedFor(t.openIn(1, "batch"), "max_queue_size_exceeded")
		high := t.openIn(1, "interactive")
		t.wantQueued(high, "interactive", 1)
		t.wantShedFor(low, "max_queue_size_exceeded")
		t.finish(busy...)
		t.wantServed(high)
		t.finish(high)
		t.wantDrained()
		t.wantGrown("warmgate_queue_refusals_total;cluster="+t.Names().Cluster+
			";class=batch;reason=max_queue_size_exceeded", 2)
	}},
	{name: "the wait is over", endpoints: 1, run: func(t *run) {
		t.queue(`"max_wait":"400ms","deadline_header":"x-deadline"`)
		busy := t.open(1)
		s := t.openIn(0, "")
		if !t.isReal() {
			t.wantHeld(s)
		}
		t.Advance(500 * time.Millisecond)
		t.wantShedFor(s, "queue_timeout")
		r := chat()
		r.Headers = [][2]string{{"x-deadline", "0"}}
		t.wantShedFor(t.Open(r), "deadline_unreachable")
		t.finish(busy...)
		t.wantDrained()
	}},
	{name: "the client leaves the queue", endpoints: 1, run: func(t *run) {
		t.queue(`"max_wait":"10m"`)
		t.mark(decisions("left_queue"))
		busy := t.open(1)
		left := t.openIn(0, "")
		t.wantQueued(left, "default", 1)
		next := t.openIn(1, "")
		t.wantQueued(next, "default", 2)
		left.ResetByClient()
		t.wantGrown(decisions("left_queue"), 1)
		t.finish(busy...)
		t.wantServed(next)
		t.finish(next)
		t.wantDrained()
	}},
	{name: "the queue is removed", endpoints: 1, run: func(t *run) {
		t.queue(`"max_wait":"10m"`)
		busy := t.open(1)
		s := t.openIn(0, "")
		t.wantHeld(s)
		t.configure("")
		t.wantHeld(s)
		t.finish(busy...)
		t.wantServed(s)
		t.finish(s)
		t.wantDrained()
	}},
	{name: "an endpoint is added", endpoints: 1, needs: []Ability{SimulatedTime}, run: func(t *run) {
		t.queue(`"max_wait":"10m"`)
		busy := t.open(1)
		s := t.openIn(0, "")
		t.wantHeld(s)
		t.SetEndpoints(make([]Endpoint, 2))
		t.Advance(time.Second)
		if s.Held() || s.Upstream() != 1 {
			t.Errorf("held %v, at endpoint %d, want the new one", s.Held(), s.Upstream())
		}
		t.finish(append(busy, s)...)
		t.wantDrained()
	}},
	{name: "waits for tokens", endpoints: 1, run: waitsForTokens},
	{name: "a body in front of the plugin waits", endpoints: 1, run: func(t *run) {
		t.bodyWaits("")
	}},
	{name: "a body behind the plugin waits", endpoints: 1, needs: []Ability{NewestFrame}, run: func(t *run) {
		t.bodyWaits(`"unit":"tokens"`)
	}},
	{name: "a body that has not ended waits", endpoints: 1, needs: []Ability{NewestFrame}, run: func(t *run) {
		t.bodyWaits(`"unit":"tokens","max_inspect_bytes":1024`)
	}},
}

// classes are the members of a queue with two classes.
const classes = `"classes":{"interactive":8,"batch":1},"class_header":"x-class"`

// queue puts a configuration into force under which each endpoint has one request in flight, and others wait.
func (t *run) queue(queue string, members ...string) {
	t.Helper()
	t.configure(strings.Join(append(members, `"max_inflight":1,"queue":{`+queue+`}`), ","))
}

// waitsForTokens has a request wait for tokens, which another one frees when its prompt has been computed.
func waitsForTokens(t *run) {
	t.configure(`"unit":"tokens","output_tokens":100,"max_inflight_tokens":500,"push":"outstanding",` +
		`"queue":{"max_wait":"10m"}`)
	long := t.Open(Request{Frames: []string{`{"stream":true,` + completion(4000, 0)[1:]}}) // more than the cap, but alone
	t.wantTokens(1100)
	next := t.openIn(1, "")
	t.wantHeld(next)
	long.Head(200)
	long.Data(wordEvent)
	t.wantServed(next)
	t.finish(long, next)
	t.wantDrained()
}

// openIn sends a usual request of that class through a worker.
func (t *run) openIn(worker int, class string) Stream {
	r := chat()
	r.Worker = worker % t.Workers()
	if class != "" {
		r.Headers = [][2]string{{"x-class", class}}
	}
	return t.Open(r)
}

// bodyWaits sends a body of 60 KB in parts: before its request waits, while it does, and after that.
func (t *run) bodyWaits(members string) {
	t.Helper()
	t.queue(`"max_wait":"10m"`, strings.Fields(members)...)
	busy := t.open(1)
	body := completion(60_000, 0)
	s := t.Open(Request{Frames: []string{body[:20_000]}, Unended: true})
	t.wantHeld(s)
	s.Send(body[20_000:40_000], false)
	t.wantHeld(s)
	whole := members == `"unit":"tokens"` // the request waits once all of its body is there
	if whole {
		s.Send(body[40_000:], true)
		t.wantHeld(s)
	}
	t.finish(busy...)
	t.wantServed(s)
	if !whole {
		s.Send(body[40_000:], true)
	}
	if !t.Await(func() bool { return s.Received().Ended }) || s.Received().Body != body {
		t.Errorf("the endpoint has %d bytes, want %d", len(s.Received().Body), len(body))
	}
	t.finish(s)
	t.wantDrained()
}

// wakeUp is how long a waiting request takes at most to notice that it was granted an endpoint.
const wakeUp = 50 * time.Millisecond

func (t *run) wantHeld(s Stream) {
	t.Helper()
	t.Advance(wakeUp)
	if !s.Held() {
		t.Fatalf("the request does not wait: %+v", s.Result())
	}
}

// wantQueued is wantHeld for a request before which others are to be counted in the queue, or behind it: now so many of
// its class wait. A request that a loaded gateway has only received may be counted behind the next one.
func (t *run) wantQueued(s Stream, class string, n int) {
	t.Helper()
	t.wantHeld(s)
	if t.Lacks(PickWorker) != "" { // a process of its own: nothing else tells what it has come to
		t.wantGauge("warmgate_queue_length;cluster="+t.Names().Cluster+";class="+class, uint64(n))
	}
}

// wantServed fails the test unless the request is served. How soon is checked where time is simulated: on a loaded
// machine a gateway may take longer.
func (t *run) wantServed(s Stream) {
	t.Helper()
	t.Advance(wakeUp)
	isLate := !t.isReal() && s.Held()
	if isLate || s.Upstream() < 0 {
		t.Fatalf("the request is not served, held %v", s.Held())
	}
}

// wantShedFor fails the test unless the plugin has refused the request.
func (t *run) wantShedFor(s Stream, code string) {
	t.Helper()
	t.Advance(wakeUp)
	if at := s.Upstream(); at >= 0 {
		t.Errorf("the request went to endpoint %d", at)
		s.Finish()
		return
	}
	r, body := s.Result(), fmt.Sprintf(`"code":%q}}`, code)
	if r.Status != 429 || r.Headers["retry-after"] == "" || !strings.HasSuffix(r.Body, body) {
		t.Errorf("answered %d, retry-after %q, %q; want 429 with %s", r.Status, r.Headers["retry-after"], r.Body, body)
	}
	t.wantReason(s, code)
}
