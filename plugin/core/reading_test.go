package core

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/answer"
	"github.com/warmgate/warmgate/plugin/learned"
	"github.com/warmgate/warmgate/plugin/process"
	"github.com/warmgate/warmgate/plugin/stats"
)

var eventStream = [2]string{"content-type", "text/event-stream"}

const (
	createdEvent = "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"output\":[]}}\n\n"
	wordEvent    = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"
	stopEvent    = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
	doneEvent    = "data: [DONE]\n\n"
	beatEvent    = "event: keepalive\ndata: {\"type\":\"keepalive\",\"sequence_number\":2}\n\n"
	roleEvent    = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n"
)

// Policies learn the time to the first output, not that to what announces it.
func TestTimesAreThoseOfTheFirstToken(t *testing.T) {
	for announcement, want := range map[string]time.Duration{
		createdEvent: 4 * time.Second, ": keep-alive\n\n": 4 * time.Second, wordEvent: 0,
		createdEvent + beatEvent:                        4 * time.Second,
		roleEvent + "event: heartbeat\ndata: {}\n\n":    4 * time.Second,
		roleEvent + "data: keep-alive\n\n":              4 * time.Second,
		roleEvent + "event: idle\ndata: {\"at\":9}\n\n": 4 * time.Second,
		"event: heartbeat\ndata: {\"at\":9}\n\n":        4 * time.Second,
	} {
		for _, kind := range []string{"text/event-stream", "text/plain", "text/html; charset=utf-8", ""} {
			d := startFake(t, 1, 1, fmt.Sprintf(prefixConfig, 0))
			r := d.record()
			for range 3 {
				c := d.client(0, streamtest.Request{Frames: []string{streamed(1)}})
				c.Head(200, [2]string{"content-type", kind})
				c.Data(announcement)
				d.advance(4 * time.Second)
				c.Data(wordEvent)
				d.advance(time.Second)
				c.Data(stopEvent)
				c.Finish()
				if got := r.outcomes[len(r.outcomes)-1]; got.TTFT < want || got.TTFT > want+process.TickPeriod {
					t.Errorf("%s, behind %q: a first token after %v, want %v", kind, announcement, got.TTFT, want)
				}
			}
			d.drained()
		}
	}
}

// An API of which answers had output is known: what is not in it is no first token, whatever it is called.
func TestOtherEventsAreNoFirstToken(t *testing.T) {
	d := startFake(t, 1, 1, tokensConfig)
	for _, event := range []string{wordEvent, "data: {\"at\":9}\n\n", "data: waiting\n\n"} {
		c := d.client(0, streamtest.Request{Frames: []string{streamed(1)}})
		c.Head(200, eventStream)
		if c.Data(event); c.core.first.Response.Begun != (event == wordEvent) {
			t.Errorf("%q: begun %v", event, c.core.first.Response.Begun)
		}
		c.Data(wordEvent + stopEvent + doneEvent)
		c.Finish()
	}
	d.drained()
}

// So does the choice among clusters by their latencies.
func TestLatencyOfClustersIsThatOfTheFirstToken(t *testing.T) {
	d := startSites(t, 1, amongConfig("cluster_metrics", `"mode":"LeastFirstTokenLatency"`))
	d.talkAmong(createdEvent)
	r := &recorder{}
	for _, cl := range d.workers[0].vm.Clusters {
		for c, p := range cl.Policies {
			r.Policy, cl.Policies[c] = p, r
		}
	}
	d.talkAmong(createdEvent)
	if o := r.outcomes[0]; o.FirstPart < 3*time.Second || o.FirstPart > 3*time.Second+process.TickPeriod {
		t.Errorf("first token after %v, want 3s", o.FirstPart)
	} else if o.Inflight != 1 {
		t.Errorf("%d requests in flight, want the only one", o.Inflight)
	}
}

func (d *fakeDriver) talkAmong(announcement string) {
	c := d.client(0, streamtest.Request{})
	c.Head(200, eventStream)
	c.Data(announcement)
	d.advance(3 * time.Second)
	c.Data(wordEvent + stopEvent)
	c.Finish()
}

// Early hints are no response: nothing of the request changes until that comes.
func TestInformationalResponses(t *testing.T) {
	for _, status := range []string{"100", "102", "103"} {
		d := startFake(t, 1, 1, tokensConfig)
		c := d.client(0, streamtest.Request{Frames: []string{`{"prompt":"x"}`}})
		c.answerBegins(status, false)
		if n := len(d.workers[0].vm.Clusters[fakeCluster].Answering); n > 0 || c.core.first.Response.Status != 0 {
			t.Errorf("%s: %d are answering, status %d", status, n, c.core.first.Response.Status)
		}
		c.Head(200)
		c.Finish()
		d.drained()
	}
}

// In an API that is not known the first event counts, until answers have shown that it only announces them: those after
// which the second one comes late. From then on the second one does, until answers show the contrary.
func TestFirstEventsOfOtherAPIs(t *testing.T) {
	d := startFake(t, 1, 1, tokensConfig)
	event := func(announced bool) (begun bool) {
		c := d.client(0, streamtest.Request{Frames: []string{`{"stream":true,"prompt":"x"}`}})
		d.advance(200 * time.Millisecond)
		c.Head(200, eventStream)
		c.Data("data: {\"state\":\"running\"}\n\n")
		begun = c.core.first.Response.Begun
		if announced {
			d.advance(5 * time.Second)
		}
		c.Data("data: {\"state\":\"running\"}\n\n")
		if !c.core.first.Response.Begun {
			t.Error("not begun with the second event")
		}
		c.Data("data: {\"state\":\"over\"}\n\n")
		c.Finish()
		return begun
	}
	for i, c := range []struct{ announced, want bool }{
		{false, true},
		{true, true},
		{true, true},
		{true, false},
		{true, false},
		{false, false},
		{false, false},
		{false, false},
		{false, true},
	} {
		if got := event(c.announced); got != c.want {
			t.Errorf("answer %d: begun with the first event: %v", i, got)
		}
	}
	d.drained()
}

// reads sends n requests that are answered by streams, all without an end or not, and returns how many were read to
// their ends.
func (d *fakeDriver) readsEnds(n int, ended bool) (read int) {
	for range n {
		c := d.client(0, streamtest.Request{Frames: []string{"{}"}})
		c.Head(200, eventStream)
		c.Data(wordEvent)
		if c.Data(wordEvent); !c.core.first.Response.Unread {
			read++
		}
		if ended {
			c.Data(stopEvent + doneEvent)
		}
		c.Finish()
	}
	return read
}

// Of streams that have begun only the first ones and then some are read to their ends, and all of an endpoint one of
// whose streams had none.
func TestReadsEndsOfSomeStreams(t *testing.T) {
	d := startFake(t, 1, 1, `{"lb_policy":"global_least_request","lb_config":{"telemetry":{"read_answers":false},
		"health":{"slow_start":0,"consecutive_failures":1000}}}`)
	if n := d.readsEnds(learned.SampleFirst, true); n != learned.SampleFirst {
		t.Errorf("%d of the first %d are read to their ends", n, learned.SampleFirst)
	}
	if n := d.readsEnds(10*learned.SampleEvery, true); n != 10 {
		t.Errorf("%d of %d are read to their ends, want 10", n, 10*learned.SampleEvery)
	}
	d.readsEnds(learned.SampleEvery, false)
	if n := d.readsEnds(learned.SampleEvery, false); n != learned.SampleEvery {
		t.Errorf("%d of %d are read to their ends after some had none", n, learned.SampleEvery)
	}
	d.advance(time.Minute)
	if n := d.readsEnds(10*learned.SampleEvery, true); n != 10 {
		t.Errorf("%d of %d are read to their ends, a while later", n, 10*learned.SampleEvery)
	}
	if got := d.Counter("warmgate_failed_answers_total;cluster=" + fakeCluster + ";endpoint=" + d.Addr(0) +
		";reason=unfinished"); got < learned.SampleEvery {
		t.Errorf("%d streams without an end were counted", got)
	}
}

// A cluster none of whose streams has what ends those of its API is not held to have it.
func TestStreamsOfAServerWithoutEnds(t *testing.T) {
	d := startFake(t, 1, 2, requestsConfig)
	d.readsEnds(20, false)
	for addr, w := range d.weights() {
		if w < 1 {
			t.Errorf("%s has weight %v", addr, w)
		}
	}
}

// What an answer under a good status contains counts as the status that it should have had.
func TestVerdictOfContents(t *testing.T) {
	for body, want := range map[string]lb.Verdict{
		`{"choices":[{"text":"a"}]}`:                        lb.Success,
		`{"error":{"message":"no","code":500}}`:             lb.Failure,
		`{"error":{"message":"no","code":503}}`:             lb.Overload,
		`{"error":{"type":"rate_limit_error"}}`:             lb.Overload,
		`{"error":{"type":"invalid_request_error"}}`:        lb.Rejected,
		`{"choices":[{"text":"","finish_reason":"abort"}]}`: lb.Failure,
		`{"choices":[]}`:                                    lb.Failure,
		`{"choices":[],"usage":{"prompt_tokens":1}}`:        lb.Success,
		"data: {\"error\":{\"code\":500}}\n\n" + doneEvent:  lb.Failure,
		"data: {\"error\":{\"code\":404}}\n\n" + doneEvent:  lb.Rejected,
		strings.Repeat(wordEvent, 200) + "data: [DONE]\n\n": lb.Success,
		createdEvent + strings.Repeat(" ", 10_000) + "\n":   lb.Failure,
		wordEvent:                    lb.Success, // of no stream here the end is known
		"\x1f\x8b\x08{\"error\":{}}": lb.Success,
	} {
		for _, split := range []int{0, 7, 5000} {
			d := startFake(t, 1, 1, requestsConfig)
			c := d.client(0, streamtest.Request{})
			c.Head(200)
			if split < len(body) {
				c.Data(body[:split])
			}
			c.Data(body[min(split, len(body))%len(body):])
			c.response(func() { c.core.OnResponseBody(0, true) })
			if got := c.core.first.Judge.Verdict(); got != want {
				t.Errorf("%.40q cut at %d: verdict %d, want %d", body, split, got, want)
			}
			c.end()
			d.drained()
		}
	}
}

// Calls on which no model works are not judged by the content of their answers, which is not read: what failed was
// another request.
func TestContentOfCallsThatComputeNothing(t *testing.T) {
	d := startFake(t, 1, 1, requestsConfig)
	for _, body := range []string{
		`{"id":"resp_1","object":"response","status":"failed","error":{"code":"server_error"},"output":[]}`,
		"data: {\"error\":{\"code\":500}}\n\n", "",
	} {
		for _, kind := range []string{"application/json", "text/event-stream"} {
			c := d.client(0, streamtest.Request{Path: "/v1/responses/resp_1"})
			c.Head(200, [2]string{"content-type", kind})
			c.Data(body)
			c.Finish()
			if r := &c.core.first.Response; r.Answer != nil || r.Outcome != answer.Complete {
				t.Errorf("%s %q: read %v, %s", kind, body, r.Answer != nil, answer.OutcomeNames[r.Outcome])
			}
		}
	}
	for name := range d.metrics.values {
		if strings.HasPrefix(name, stats.Failed) {
			t.Errorf("counted as %s", name)
		}
	}
	for _, e := range d.endpoints {
		if d.workers[0].vm.Clusters[fakeCluster].IsSuspect(d.now, e.Addr) {
			t.Errorf("%s is a suspect", e.Addr)
		}
	}
	d.drained()
}

// A stream that fails at once teaches push: pending no more than a status 500 does, where its end comes later.
func TestFailingStreamsTeachNoLimits(t *testing.T) {
	limits := func(fail func(c *fakeStream)) (all []int64) {
		d := startFake(t, 1, 1, `{"lb_policy":"global_least_request","lb_config":{"push":"pending",`+
			`"queue":{"max_wait":"60s"},"health":{"slow_start":0,"consecutive_failures":1000}}}`)
		d.client(0, streamtest.Request{}).Finish()
		for range 60 {
			n, _ := d.workers[0].vm.Clusters[fakeCluster].Limits.Limit(d.Addr(0))
			all = append(all, n)
			var open []*fakeStream
			for range max(1, n-1) {
				open = append(open, d.client(0, streamtest.Request{}))
			}
			for range 8 {
				if c := d.client(0, streamtest.Request{}); c.Held() {
					c.leave()
				} else {
					fail(c)
				}
			}
			for len(open) > 0 { // the engine runs 8 at once
				runs := open[:min(8, len(open))]
				for _, c := range runs {
					if c.Held() {
						c.leave()
						continue
					}
					c.Head(200, eventStream)
					c.Data(wordEvent)
				}
				d.advance(time.Second)
				for _, c := range runs {
					if !c.Ended {
						c.Data(stopEvent + doneEvent)
						c.Finish()
					}
				}
				open = open[len(runs):]
			}
		}
		return all
	}
	want := limits(func(c *fakeStream) { c.Head(500); c.Finish() })
	for _, body := range []string{
		"data: {\"error\":{\"code\":500}}\n\n",
		"data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"abort\"}]}\n\n",
		doneEvent,
	} {
		got := limits(func(c *fakeStream) { c.Head(200, eventStream); c.Data(body); c.Finish() })
		if !slices.Equal(got, want) {
			t.Errorf("%q: limits of %v, want %v", body, got, want)
		}
	}
}

// Whom a server refuses under status 200 gets the tokens back that were charged, as under the status for it.
func TestRefusalsUnder200AreNotCharged(t *testing.T) {
	for body, want := range map[string]uint64{
		`{"error":{"type":"overloaded_error"}}`:                         0,
		wordEvent + "data: {\"error\":{\"type\":\"server_error\"}}\n\n": 101,
	} {
		d := startBudget(t, 1, `"weight":1`, "")
		c := d.client(0, streamtest.Request{Frames: []string{`{"prompt":"words"}`}})
		c.Head(200)
		c.Data(body)
		c.Finish()
		used := uint64(0)
		for name, n := range d.metrics.values {
			if strings.HasPrefix(name, "warmgate_budget_tokens_total") {
				used += n
			}
		}
		if used != want {
			t.Errorf("%s: %d tokens were used, want %d", body, used, want)
		}
	}
}
