package streamtest

import (
	"fmt"
	"strings"
	"time"
)

// bodyScenarios are about requests that wait for their body. All count tokens, because only then do requests wait for
// it.
var bodyScenarios = []scenario{
	{name: "held until it is there", endpoints: 2, config: guessed + `,"body_timeout":"60s"`, run: func(t *run) {
		t.mark(decisions("chosen"))
		body := completion(400, 50)
		s := t.Open(Request{Frames: []string{body[:100]}, Unended: true})
		s.Send(body[100:200], false)
		if !s.Held() {
			t.Error("the request is not held")
		}
		s.Send(body[200:], true)
		s.wantReceived(body)
		s.wantTokens(150)
		t.finish(s)
		t.wantDrained()
		t.wantGrown(decisions("chosen"), 1)
	}},
	{name: "does not come", endpoints: 2, config: guessed + `,"body_timeout":"200ms"`, run: func(t *run) {
		t.mark(decisions("body_late"))
		s := t.Open(Request{Unended: true})
		if !t.isReal() && !s.Held() {
			t.Error("the request is not held")
		}
		t.Advance(400 * time.Millisecond)
		s.wantSent()
		s.wantTokens(1) // no engine works at it yet
		s.Send(`{"model":"m"}`, true)
		s.wantReceived(`{"model":"m"}`)
		s.wantTokens(103)
		t.finish(s)
		s.wantReason("body_late")
		t.wantDrained()
		t.wantGrown(decisions("body_late"), 1)
	}},
	{name: "does not come but is announced", endpoints: 1, run: func(t *run) {
		t.apply(guessed + `,"body_timeout":"200ms"`)
		body := completion(1200-len(completion(0, 0)), 0)
		s := t.Open(Request{Headers: [][2]string{{"content-length", "1200"}}, Unended: true})
		t.Advance(400 * time.Millisecond)
		s.wantSent()
		t.wantTokens(1) // whatever is announced
		s.Send(body[:600], false)
		t.wantTokens(1)
		s.Send(body[600:], true)
		s.wantReceived(body)
		t.wantTokens(300) // twice a typical prompt at most, since nothing of it was read
		t.finish(s)
		t.wantDrained()
	}},
	{name: "is announced, huge, and never comes", endpoints: 2, config: guessed + `,"body_timeout":"200ms"`, run: func(t *run) {
		huge := t.Open(Request{Headers: [][2]string{{"content-length", "1000000000"}}, Unended: true})
		t.Advance(400 * time.Millisecond)
		huge.wantSent()
		streams, same := []*stream{}, 0
		for range 10 {
			s := t.Open(Request{Frames: []string{completion(400, 0)}})
			if streams = append(streams, s); s.Upstream() == huge.Upstream() {
				same++
			}
		}
		if same < 4 {
			t.Errorf("%d of 10 requests went to the endpoint of the one that never comes, want nearly half", same)
		}
		t.finish(streams...)
		huge.ResetByClient()
		t.wantDrained()
	}},
	{name: "comes late in part", endpoints: 2, needs: []Ability{NewestFrame}, run: func(t *run) {
		t.apply(guessed + `,"body_timeout":"200ms"`)
		t.mark(decisions("body_late"))
		s := t.Open(Request{Frames: []string{`{"prompt":"` + strings.Repeat("x", 400)}, Unended: true})
		t.Advance(400 * time.Millisecond)
		if !s.Held() {
			t.Error("a request was sent on with part of its body held")
		}
		s.Send(strings.Repeat("x", 400), false)
		s.wantSent()
		t.Advance(1500 * time.Millisecond)
		s.wantTokens(1) // what has come counts for a second
		s.Send(`"}`, true)
		s.wantReceived(`{"prompt":"` + strings.Repeat("x", 800) + `"}`)
		s.wantTokens(300)
		t.finish(s)
		s.wantReason("body_late")
		t.wantDrained()
		t.wantGrown(decisions("body_late"), 1)
	}},
	{name: "comes whole after its time", endpoints: 2, needs: []Ability{NewestFrame}, run: func(t *run) {
		t.apply(guessed + `,"body_timeout":"200ms"`)
		body := completion(400, 50)
		s := t.Open(Request{Frames: []string{body[:100]}, Unended: true})
		t.Advance(400 * time.Millisecond)
		s.Send(body[100:], true)
		s.wantReceived(body)
		s.wantTokens(150)
		t.finish(s)
		t.wantDrained()
	}},
	{name: "larger than what is inspected, and announced", endpoints: 2, config: guessed + `,"max_inspect_bytes":1024`, run: func(t *run) {
		const length = 4024
		body := completion(length-len(completion(0, 0)), 0)
		s := t.Open(Request{
			Headers: [][2]string{{"content-length", fmt.Sprint(length)}}, Frames: []string{body[:1024]},
			Unended: true,
		})
		s.wantSent()
		t.Advance(1500 * time.Millisecond)
		s.wantTokens(1) // what has come counts for a second
		s.Send(body[1024:], true)
		s.wantReceived(body)
		seen := 1024 - len(`{"model":"m","prompt":"`)
		s.wantTokens(int64(seen*length/1024/4 + 100)) // the rest is like what was seen
		t.finish(s)
		t.wantDrained()
	}},
	{name: "a byte at a time", endpoints: 2, config: guessed + `,"body_timeout":"60s"`, run: func(t *run) {
		body := completion(40, 50)
		s := t.Open(Request{Frames: strings.Split(body, "")})
		s.wantReceived(body)
		s.wantTokens(60)
		t.finish(s)
		t.wantDrained()
	}},
	{name: "ends with trailers", endpoints: 2, config: guessed + `,"body_timeout":"60s"`, run: func(t *run) {
		body := completion(400, 50)
		s := t.Open(Request{Frames: []string{body}, Trailers: [][2]string{{"x-checksum", "1"}}})
		s.wantReceived(body)
		s.wantTokens(150)
		if got := s.Received().Trailers["x-checksum"]; got != "1" {
			t.Errorf("trailer %q", got)
		}
		t.finish(s)
		t.wantDrained()
	}},
	{name: "shed when it is there", endpoints: 1, config: `"unit":"tokens","max_inflight":1`, run: func(t *run) {
		streams := t.chats(1)
		t.wantShed(429, "1")
		t.finish(streams...)
		t.wantDrained()
	}},
	{name: "shed when it does not come", endpoints: 1, config: `"unit":"tokens","max_inflight":1,"body_timeout":"200ms"`, run: func(t *run) {
		streams := t.chats(1)
		s := t.Open(Request{Unended: true})
		t.Advance(400 * time.Millisecond)
		if r := s.Result(); r.Status != 429 {
			t.Errorf("answered %d, want 429", r.Status)
		}
		t.finish(streams...)
		t.wantDrained()
	}},
	{name: "not JSON", endpoints: 2, run: countsFor("body_malformed", `{"model":`)},
	{name: "no object", endpoints: 2, run: countsFor("body_malformed", `[1,2]`)},
	{name: "no number", endpoints: 2, run: countsFor("body_malformed", `{"prompt":"a","temperature":NaN}`)},
	{name: "a byte order mark", endpoints: 2, run: countsFor("body_malformed", "\ufeff"+`{"prompt":"a"}`)},
	{name: "a key twice", endpoints: 2, run: countsFor("body_ambiguous", `{"model":"a","prompt":"p","model":"b"}`)},
	{name: "compressed", endpoints: 2, run: countsFor("body_encoded", "\x1f\x8b\x08", "content-encoding", "gzip")},
	{
		name: "multipart", endpoints: 2,
		run: countsFor("body_encoded", "--x--", "content-type", "multipart/form-data; boundary=x"),
	},
	{name: "encoding identity", endpoints: 2, config: guessed, run: func(t *run) {
		s := t.Open(Request{
			Headers: [][2]string{{"content-encoding", "identity"}},
			Frames:  []string{completion(400, 50)},
		})
		s.wantTokens(150)
		t.finish(s)
	}},
	{name: "not looked at when requests are counted", endpoints: 2, run: func(t *run) {
		t.mark(decisions("chosen"))
		s := t.Open(Request{Frames: []string{`{"model":`}, Unended: true})
		if s.Upstream() < 0 {
			t.Error("the request waits for its body")
		}
		s.Send("", true)
		t.finish(s)
		t.wantGrown(decisions("chosen"), 1)
	}},
}

// countsFor returns a scenario with requests that cannot be parsed: they are counted by their length under that reason,
// arrive complete, and are subject to the cap.
func countsFor(reason, body string, header ...string) func(*run) {
	return func(t *run) {
		t.apply(guessed + `,"max_inflight":1`)
		t.mark(decisions(reason), decisions("at_capacity"))
		r := Request{Frames: []string{body}}
		if len(header) == 2 {
			r.Headers = [][2]string{{header[0], header[1]}}
		}
		var streams []*stream
		var tokens []int64
		for range t.size {
			s := t.Open(r)
			s.wantReceived(body)
			if len(streams) > 0 && s.Upstream() == streams[0].Upstream() {
				t.Error("two requests went to one endpoint")
			}
			streams, tokens = append(streams, s), append(tokens, int64(len(body)/4+100))
		}
		t.wantTokens(tokens...)
		wantAtCap(t, r)
		t.finish(streams...)
		streams[0].wantReason(reason)
		t.wantDrained()
		t.wantGrown(decisions(reason), uint64(t.size))
		t.wantGrown(decisions("at_capacity"), 1)
	}
}

// wantAtCap fails the test unless the request is shed.
func wantAtCap(t *run, r Request) {
	t.Helper()
	shed := t.Open(r)
	if at := shed.Upstream(); at >= 0 {
		t.Errorf("a request went to endpoint %d, which is at its cap", at)
		shed.Finish()
	}
	if got := shed.Result().Status; got != 429 {
		t.Errorf("answered %d, want 429", got)
	}
}
