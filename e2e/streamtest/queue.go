package streamtest

import (
	"strings"
	"time"
)

// queueScenarios are about requests that wait while every endpoint is full.
var queueScenarios = []scenario{
	{name: "waits for room", endpoints: 1, run: func(t *run) {
		queue(t, `"max_wait":"10m"`)
		t.mark(decisions("chosen"))
		for worker := range t.Workers() {
			busy := t.chats(1)
			s := openIn(t, worker, "")
			s.wantHeld()
			t.finish(busy...)
			s.wantServed()
			t.finish(s)
			s.wantReason("chosen")
			h := s.Result().Headers
			if h["x-warmgate-class"] != "default" || h["x-warmgate-wait-ms"] == "" {
				t.Errorf("class %q, waited for %q ms", h["x-warmgate-class"], h["x-warmgate-wait-ms"])
			}
		}
		t.wantDrained()
		t.wantGrown(decisions("chosen"), uint64(2*t.Workers()))
	}},
	{name: "woken at once", endpoints: 1, needs: []Ability{WakeUp, SimulatedTime}, run: func(t *run) {
		queue(t, `"max_wait":"10m"`)
		busy := t.chats(1) // by worker 0
		s := openIn(t, 1, "")
		s.wantHeld()
		t.finish(busy...)
		t.Advance(time.Millisecond)
		if s.Held() {
			t.Error("the request waits for the next tick of its worker")
		}
		t.finish(s)
		t.wantDrained()
	}},
	{name: "first come, first served", endpoints: 1, run: func(t *run) {
		queue(t, `"max_wait":"10m"`)
		busy := t.chats(1)
		var waiting []*stream
		for i := range 5 {
			s := openIn(t, i%t.Workers(), "")
			s.wantQueued("default", i+1)
			waiting = append(waiting, s)
		}
		t.finish(busy...)
		for i, s := range waiting {
			s.wantServed()
			if i+1 < len(waiting) {
				waiting[i+1].wantHeld()
			}
			t.finish(s)
		}
		t.wantDrained()
	}},
	{name: "the higher class first", endpoints: 1, run: func(t *run) {
		queue(t, `"max_wait":"10m","order":"strict",`+classes)
		busy := t.chats(1)
		low := openIn(t, 0, "batch")
		low.wantQueued("batch", 1)
		high := openIn(t, 1, "interactive")
		high.wantQueued("interactive", 1)
		t.finish(busy...)
		high.wantServed()
		low.wantHeld()
		t.finish(high)
		low.wantServed()
		t.finish(low)
		t.wantDrained()
	}},
	{name: "a full queue", endpoints: 1, run: func(t *run) {
		queue(t, `"max_wait":"10m","max_length":1,`+classes)
		busy := t.chats(1)
		low := openIn(t, 0, "batch")
		low.wantQueued("batch", 1)
		openIn(t, 1, "batch").wantShedFor("max_queue_size_exceeded")
		high := openIn(t, 1, "interactive")
		high.wantQueued("interactive", 1)
		low.wantShedFor("max_queue_size_exceeded")
		t.finish(busy...)
		high.wantServed()
		t.finish(high)
		t.wantDrained()
		t.wantGrown(t.ofCluster("warmgate_queue_refusals_total")+
			";class=batch;reason=max_queue_size_exceeded", 2)
	}},
	{name: "the wait is over", endpoints: 1, run: func(t *run) {
		queue(t, `"max_wait":"400ms","deadline_header":"x-deadline"`)
		busy := t.chats(1)
		s := openIn(t, 0, "")
		if !t.isReal() {
			s.wantHeld()
		}
		t.Advance(500 * time.Millisecond)
		s.wantShedFor("queue_timeout")
		r := chat()
		r.Headers = [][2]string{{"x-deadline", "0"}}
		t.Open(r).wantShedFor("deadline_unreachable")
		t.finish(busy...)
		t.wantDrained()
	}},
	{name: "the client leaves the queue", endpoints: 1, run: func(t *run) {
		queue(t, `"max_wait":"10m"`)
		t.mark(decisions("left_queue"))
		busy := t.chats(1)
		left := openIn(t, 0, "")
		left.wantQueued("default", 1)
		next := openIn(t, 1, "")
		next.wantQueued("default", 2)
		left.ResetByClient()
		t.wantGrown(decisions("left_queue"), 1)
		t.finish(busy...)
		next.wantServed()
		t.finish(next)
		t.wantDrained()
	}},
	{name: "the queue is removed", endpoints: 1, run: func(t *run) {
		queue(t, `"max_wait":"10m"`)
		busy := t.chats(1)
		s := openIn(t, 0, "")
		s.wantHeld()
		t.apply("")
		s.wantHeld()
		t.finish(busy...)
		s.wantServed()
		t.finish(s)
		t.wantDrained()
	}},
	{name: "an endpoint is added", endpoints: 1, needs: []Ability{SimulatedTime}, run: func(t *run) {
		queue(t, `"max_wait":"10m"`)
		busy := t.chats(1)
		s := openIn(t, 0, "")
		s.wantHeld()
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
		bodyWaits(t, "")
	}},
	{name: "a body behind the plugin waits", endpoints: 1, needs: []Ability{NewestFrame}, run: func(t *run) {
		bodyWaits(t, `"unit":"tokens"`)
	}},
	{name: "a body that has not ended waits", endpoints: 1, needs: []Ability{NewestFrame}, run: func(t *run) {
		bodyWaits(t, `"unit":"tokens","max_inspect_bytes":1024`)
	}},
}

// classes are the members of a queue with two classes.
const classes = `"classes":{"interactive":8,"batch":1},"class_header":"x-class"`

// queue puts a configuration into force under which each endpoint has one request in flight, and others wait.
func queue(t *run, queue string, members ...string) {
	t.Helper()
	t.apply(strings.Join(append(members, `"max_inflight":1,"queue":{`+queue+`}`), ","))
}

// waitsForTokens has a request wait for tokens, which another one frees when its prompt has been computed.
func waitsForTokens(t *run) {
	t.apply(guessed + `,"max_inflight_tokens":500,"push":"outstanding",` +
		`"queue":{"max_wait":"10m"}`)
	long := t.Open(Request{Frames: []string{`{"stream":true,` + completion(4000, 0)[1:]}}) // more than the cap, but alone
	t.wantTokens(1100)
	next := openIn(t, 1, "")
	next.wantHeld()
	long.Head(200)
	long.Data(wordEvent)
	next.wantServed()
	t.finish(long, next)
	t.wantDrained()
}

// openIn sends a usual request of that class through a worker.
func openIn(t *run, worker int, class string) *stream {
	r := t.chatIn(worker)
	if class != "" {
		r.Headers = [][2]string{{"x-class", class}}
	}
	return t.Open(r)
}

// bodyWaits sends a body of 60 KB in parts: before its request waits, while it does, and after that.
func bodyWaits(t *run, members string) {
	t.Helper()
	queue(t, `"max_wait":"10m"`, strings.Fields(members)...)
	busy := t.chats(1)
	body := completion(60_000, 0)
	s := t.Open(Request{Frames: []string{body[:20_000]}, Unended: true})
	s.wantHeld()
	s.Send(body[20_000:40_000], false)
	s.wantHeld()
	whole := members == `"unit":"tokens"` // the request waits once all of its body is there
	if whole {
		s.Send(body[40_000:], true)
		s.wantHeld()
	}
	t.finish(busy...)
	s.wantServed()
	if !whole {
		s.Send(body[40_000:], true)
	}
	if !t.Await(func() bool { return s.Received().Ended }) || s.Received().Body != body {
		t.Errorf("the endpoint has %d bytes, want %d", len(s.Received().Body), len(body))
	}
	t.finish(s)
	t.wantDrained()
}
