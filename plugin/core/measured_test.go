package core

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/lb/price"
	"github.com/warmgate/warmgate/plugin/measured"
)

const (
	thoughtEvent = "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n"
	endOfUsage   = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":500,\"completion_tokens\":9," +
		"\"prompt_tokens_details\":{\"cached_tokens\":400},\"completion_tokens_details\":{\"reasoning_tokens\":4}}}\n\n"
)

// measure plays a request, whose body has 400 bytes, and returns what was measured of it.
func (d *fakeDriver) measure(play func(c *fakeStream)) measured.Request {
	c := d.client(0, streamtest.Request{Frames: []string{fmt.Sprintf(`{"a":%-394q}`, "")}})
	d.advance(time.Millisecond)
	play(c)
	if !c.Ended {
		d.t.Fatal("it is not over")
	}
	return d.workers[0].vm.Measured
}

// stream plays a stream whose head comes after 50 ms, and its first output after 150 ms, of two thoughts and three
// words, each 100 ms after the one before; what passes between is no output.
func (d *fakeDriver) stream(c *fakeStream) {
	d.advance(49 * time.Millisecond)
	c.Head(200, eventStream)
	c.Data(roleEvent)
	for i, event := range []string{thoughtEvent, thoughtEvent, wordEvent, wordEvent, wordEvent} {
		d.advance(70 * time.Millisecond)
		c.Data(": keep-alive\n\n")
		if d.advance(30 * time.Millisecond); i == 4 {
			event = "data:" + event[len("data: "):] // the same in other bytes
		}
		c.Data(event)
	}
}

// ways are the ways in which a request that is served ends, and what is measured then.
var ways = map[string]struct {
	play func(d *fakeDriver, c *fakeStream)
	want measured.Request
}{
	"a stream with usage": {
		func(d *fakeDriver, c *fakeStream) {
			d.stream(c)
			d.advance(time.Second)
			c.Data(stopEvent + endOfUsage + doneEvent)
			c.Finish()
		},
		measured.Request{
			Status: 200, Streamed: true, Parts: 5, Duration: 1550 * time.Millisecond, TTFT: 150 * time.Millisecond,
			Decode: 400 * time.Millisecond, PerToken: 50 * time.Millisecond, GapP99: 100 * time.Millisecond,
			Tokens: price.Tokens{Input: 100, Cached: 400, Output: 5, Reasoning: 4},
		},
	},
	"a stream without usage": {
		func(d *fakeDriver, c *fakeStream) {
			d.stream(c)
			c.Data(stopEvent + doneEvent)
			c.Finish()
		},
		measured.Request{
			Status: 200, Streamed: true, Parts: 5, Duration: 550 * time.Millisecond, TTFT: 150 * time.Millisecond,
			Decode: 400 * time.Millisecond, PerToken: 100 * time.Millisecond, GapP99: 100 * time.Millisecond,
			Tokens: price.Tokens{Input: 100, Output: 3, Reasoning: 2, Estimated: true},
		},
	},
	"its client leaves": {
		func(d *fakeDriver, c *fakeStream) {
			d.stream(c)
			d.advance(time.Second)
			c.ResetByClient()
		},
		measured.Request{
			Outcome: measured.ClientLeft, Status: 200, Streamed: true, Parts: 5, Duration: 1550 * time.Millisecond,
			TTFT: 150 * time.Millisecond, Decode: 400 * time.Millisecond, PerToken: 100 * time.Millisecond,
			GapP99: 100 * time.Millisecond,
			Tokens: price.Tokens{Input: 100, Output: 3, Reasoning: 2, Estimated: true},
		},
	},
	"its server breaks it off": {
		func(d *fakeDriver, c *fakeStream) { d.stream(c); c.ResetByUpstream() },
		measured.Request{
			Outcome: measured.ServerFailed, Status: 200, Streamed: true, Parts: 5, Duration: 550 * time.Millisecond,
			TTFT: 150 * time.Millisecond, Decode: 400 * time.Millisecond, PerToken: 100 * time.Millisecond,
			GapP99: 100 * time.Millisecond,
			Tokens: price.Tokens{Input: 100, Output: 3, Reasoning: 2, Estimated: true},
		},
	},
	"it stands still": {
		func(d *fakeDriver, c *fakeStream) { d.stream(c); c.IdleTimeout() },
		measured.Request{
			Outcome: measured.TimedOut, Status: 200, Streamed: true, Parts: 5, Duration: 550 * time.Millisecond,
			TTFT: 150 * time.Millisecond, Decode: 400 * time.Millisecond, PerToken: 100 * time.Millisecond,
			GapP99: 100 * time.Millisecond,
			Tokens: price.Tokens{Input: 100, Output: 3, Reasoning: 2, Estimated: true},
		},
	},
	"usage in each event, and its client leaves": {
		func(d *fakeDriver, c *fakeStream) {
			c.Head(200, eventStream)
			d.advance(time.Millisecond)
			for i := range 3 {
				c.Data(fmt.Sprintf("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],"+
					"\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":%d}}\n\n", 2*i+2))
			}
			c.ResetByClient()
		},
		measured.Request{
			Outcome: measured.ClientLeft, Status: 200, Streamed: true, Parts: 3, Duration: 2 * time.Millisecond,
			TTFT: 2 * time.Millisecond, Tokens: price.Tokens{Input: 7, Output: 6},
		},
	},
	"a stream that cannot be read": {
		func(d *fakeDriver, c *fakeStream) {
			c.Head(200, eventStream, [2]string{"content-encoding", "br"})
			for range 4 {
				d.advance(10 * time.Millisecond)
				c.Data("\x01\x02\x03")
			}
			c.Finish()
		},
		measured.Request{
			Status: 200, Streamed: true, Parts: 4, Duration: 41 * time.Millisecond, TTFT: 11 * time.Millisecond,
			Decode: 30 * time.Millisecond, PerToken: 10 * time.Millisecond, GapP99: 10 * time.Millisecond,
			Tokens: price.Tokens{Input: 100, Output: 4, Estimated: true},
		},
	},
	"an answer in one piece": {
		func(d *fakeDriver, c *fakeStream) {
			c.Head(200, [2]string{"content-type", "application/json"})
			c.Data(`{"choices":[{"message":{"content":"a"}}],"usage":{"prompt_tokens":7,"completion_tokens":3}}`)
			c.Finish()
		},
		measured.Request{
			Status: 200, Duration: time.Millisecond, Tokens: price.Tokens{Input: 7, Output: 3},
		},
	},
	"one without usage": {
		func(d *fakeDriver, c *fakeStream) {
			c.Head(200, [2]string{"content-type", "application/json"})
			c.Data(`{"choices":[{"message":{"content":"` + strings.Repeat("word ", 80) + `"}}],"id":"` +
				strings.Repeat("x", 200) + `"}`)
			c.Finish()
		},
		measured.Request{
			Status: 200, Duration: time.Millisecond,
			Tokens: price.Tokens{Input: 100, Output: 99, Estimated: true},
		},
	},
	"its client leaves before": {
		func(d *fakeDriver, c *fakeStream) { d.advance(time.Second); c.ResetByClient() },
		measured.Request{
			Outcome: measured.ClientLeft, Duration: 1001 * time.Millisecond,
			Tokens: price.Tokens{Input: 100, Estimated: true},
		},
	},
	"an error in it": {
		func(d *fakeDriver, c *fakeStream) {
			c.Head(200, [2]string{"content-type", "application/json"})
			c.Data(`{"error":{"message":"out of memory","code":500}}`)
			c.Finish()
		},
		measured.Request{Outcome: measured.ServerFailed, Status: 200, Duration: time.Millisecond},
	},
	"a bad request": {
		func(d *fakeDriver, c *fakeStream) { c.Head(400); c.Data("{}"); c.Finish() },
		measured.Request{Outcome: measured.ClientError, Status: 400, Duration: time.Millisecond},
	},
	"a server that has no room": {
		func(d *fakeDriver, c *fakeStream) { c.Head(503); c.Data("{}"); c.Finish() },
		measured.Request{Outcome: measured.ServerFailed, Status: 503, Duration: time.Millisecond},
	},
	"an error to a stream": {
		func(d *fakeDriver, c *fakeStream) {
			c.Head(500, eventStream)
			c.Data("data: {\"error\":1}\n\n")
			c.Data("data: [DONE]\n\n")
			c.Finish()
		},
		measured.Request{
			Outcome: measured.ServerFailed, Status: 500, Duration: time.Millisecond,
		},
	},
	"the gateway has enough": {
		func(d *fakeDriver, c *fakeStream) { d.advance(time.Second); c.IdleTimeout() },
		measured.Request{
			Outcome: measured.TimedOut, Status: 504, Duration: 1001 * time.Millisecond,
			Tokens: price.Tokens{Input: 100, Estimated: true},
		},
	},
}

// Each way in which a request ends is measured, whether the plugin or the gateway has chosen where it goes.
func TestMeasured(t *testing.T) {
	for name, way := range ways {
		for _, native := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, native %v", name, native), func(t *testing.T) {
				d := startFake(t, 1, 2, `{"lb_policy":"global_least_request"}`)
				if native {
					d.steerErr = errors.New("no")
				}
				got := d.measure(func(c *fakeStream) { way.play(d, c) })
				want := way.want
				want.Cluster, want.Policy = fakeCluster, "global_least_request"
				if want.Prefill = want.TTFT; got.Endpoint == "" { // it is sent on as it comes
					t.Error("no endpoint")
				}
				want.Endpoint, want.Operation = got.Endpoint, got.Operation
				want.RunnerUp, want.LostBy, want.Rule, want.Reason = got.RunnerUp, got.LostBy, got.Rule, got.Reason
				if off := got.GapP99 - want.GapP99; off*off > (want.GapP99/10)*(want.GapP99/10) {
					t.Errorf("gaps of %s, want %s", got.GapP99, want.GapP99)
				}
				whys := map[bool]string{false: "chosen by tie", true: "store_error by "}
				if why := got.Reason + " by " + got.Rule; why != whys[native] {
					t.Errorf("it went there because it was %s", why)
				}
				if want.GapP99 = got.GapP99; got != want {
					t.Errorf("got\n%+v, want\n%+v", got, want)
				}
			})
		}
	}
}

// A request that the plugin refuses is measured: it has no endpoint and no tokens.
func TestMeasuredRefusals(t *testing.T) {
	d, busy := startQueue(t, 1, 1, queueConfig(twoClasses))
	waits := d.client(0, inClass("batch"))
	d.advance(10 * time.Second)
	waits.wantRefused(t, "queue_timeout")
	got := d.workers[0].vm.Measured
	if got.Outcome != measured.Refused || got.Status != 429 || got.Wait < 9*time.Second || got.Class != "batch" ||
		got.Duration < got.Wait || got.Endpoint != "" || got.Tokens != (price.Tokens{}) {
		t.Errorf("%+v", got)
	}
	leaves, served := d.client(0, inClass("interactive")), d.client(0, inClass("batch"))
	d.advance(500 * time.Millisecond)
	leaves.ResetByClient()
	got = d.workers[0].vm.Measured
	if got.Outcome != measured.ClientLeft || got.Wait < 400*time.Millisecond || got.Tokens != (price.Tokens{}) {
		t.Errorf("of one that has left the queue: %+v", got)
	}
	busy[0].Finish()
	served.Finish()
	got = d.workers[0].vm.Measured
	if got.Outcome != measured.OK || got.Wait < 400*time.Millisecond || got.Endpoint != d.Addr(0) {
		t.Errorf("of one that has waited: %+v", got)
	}
	d.drained()
}

// What the gateway has tried again is counted, and measured by the answer that the client has got.
func TestMeasuredRetries(t *testing.T) {
	d := startFake(t, 1, 3, `{"lb_policy":"global_least_request"}`)
	got := d.measure(func(c *fakeStream) {
		d.advance(time.Second)
		c.Retry()
		c.Retry()
		d.stream(c)
		c.Data(endOfUsage + doneEvent)
		c.Finish()
	})
	if got.Retries != 2 || got.Outcome != measured.OK || got.TTFT < time.Second || got.Tokens.Output != 5 {
		t.Errorf("%+v", got)
	}
	if got.Prefill != 0 {
		t.Errorf("the attempts that failed count as a prefill of %s of who has answered", got.Prefill)
	}
	got = d.measure(func(c *fakeStream) {
		c.moveTo((c.Upstream() + 1) % 3) // before the first attempt
		d.stream(c)
		c.Finish()
	})
	if got.Retries != 0 || got.Prefill != 150*time.Millisecond {
		t.Errorf("of an endpoint that has changed before it was tried: %+v", got)
	}
}

// read_answers: false leaves answers unread once they have begun: parts count, and a stream lasts to its end.
func TestMeasuredWithoutReading(t *testing.T) {
	d := startFake(t, 1, 1, `{"lb_policy":"global_least_request","lb_config":{"telemetry":{"read_answers":false}}}`)
	for range 100 { // until few streams are read to their ends for how they end
		d.measure(func(c *fakeStream) {
			c.Head(200, eventStream)
			c.Data(wordEvent)
			c.Data(stopEvent + doneEvent)
			c.Finish()
		})
	}
	got := d.measure(func(c *fakeStream) {
		c.Head(200, eventStream)
		for range 11 {
			d.advance(10 * time.Millisecond)
			c.Data(wordEvent)
		}
		c.Data(stopEvent)
		c.Finish()
	})
	if got.TTFT != 11*time.Millisecond || got.Decode != 100*time.Millisecond || got.Tokens.Output != 10 ||
		!got.Tokens.Estimated || got.GapP99 != 0 {
		t.Errorf("%+v", got)
	}
}

// Streams that break off are counted for what has passed, by what whole ones have shown an event to stand for.
func TestMeasuredByWholeOnes(t *testing.T) {
	d := startFake(t, 1, 1, `{"lb_policy":"global_least_request"}`)
	play := func(words int, left bool) measured.Request {
		return d.measure(func(c *fakeStream) {
			c.Head(200, eventStream)
			for range words {
				c.Data(wordEvent)
			}
			if left {
				c.ResetByClient()
				return
			}
			c.Data(fmt.Sprintf("data: {\"choices\":[],\"usage\":{\"prompt_tokens\":200,\"completion_tokens\":%d}}\n\n",
				3*words) + doneEvent)
			c.Finish()
		})
	}
	for i := range 30 {
		play(10+i, false)
	}
	if got := play(20, true).Tokens; got != (price.Tokens{Input: 200, Output: 60, Estimated: true}) {
		t.Errorf("%+v", got)
	}
}

// A request is not measured where that is off, nor one that is no request.
func TestNotMeasured(t *testing.T) {
	for _, config := range []string{
		`{"enabled":false}`, `{"lb_policy":"global_least_request","lb_config":{"telemetry":{"enabled":false}}}`,
	} {
		d := startFake(t, 1, 1, config)
		c := d.client(0, streamtest.Request{Frames: []string{"{}"}})
		c.Finish()
		if c.core.first.serving.Measures {
			t.Errorf("%s: it is measured", config)
		}
	}
}

// The model of a request is known for what is measured, also where nothing of its body decides.
func TestMeasuredModel(t *testing.T) {
	for _, native := range []bool{false, true} {
		d := startFake(t, 1, 1, `{"lb_policy":"global_least_request"}`)
		if native {
			d.steerErr = errors.New("no")
		}
		c := d.client(0, streamtest.Request{Frames: []string{`{"model":"a \"b\"",`, `"n":1}`}})
		c.Finish()
		if got := d.workers[0].vm.Measured; got.Model != `a "b"` || got.Asked != got.Model {
			t.Errorf("native %v: %q, asked for %q", native, got.Model, got.Asked)
		}
	}
}
