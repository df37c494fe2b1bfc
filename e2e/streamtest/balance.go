package streamtest

import (
	"fmt"
	"slices"
	"strings"
)

var balanceScenarios = []scenario{
	{name: "least loaded over all workers", endpoints: 3, run: func(t *run) {
		streams := t.open(9)
		t.wantLoads(3, 3, 3)
		t.finish(streams...)
		t.wantDrained()
	}},
	{name: "the freed endpoint is next", endpoints: 3, run: func(t *run) {
		streams := t.open(6)
		for _, i := range []int{4, 0, 5, 3} {
			freed := streams[i].Upstream()
			t.finish(streams[i])
			streams[i] = t.open(1)[0]
			if got := streams[i].Upstream(); got != freed {
				t.Errorf("endpoint %d was freed, but the next request went to %d", freed, got)
			}
		}
		t.finish(streams...)
		t.wantDrained()
	}},
	{name: "ties go to all", endpoints: 3, run: func(t *run) {
		if counts := t.serve(48); slices.Min(counts) == 0 {
			t.Errorf("one after the other, the endpoints got %s requests: one got none", each(counts))
		}
		t.wantDrained()
	}},
	{name: "configured weights", endpoints: 2, run: func(t *run) {
		t.configure(fmt.Sprintf(`"weights":{%q:3}`, t.Addr(1)))
		streams := t.open(8)
		t.wantLoads(2, 6)
		t.finish(streams...)
		t.wantDrained()
	}},
	{name: "endpoint weights", needs: []Ability{HostWeights}, list: []Endpoint{
		{Weight: 3},
		{Weight: 1},
	}, run: func(t *run) {
		streams := t.open(8)
		t.wantLoads(6, 2)
		t.finish(streams...)
	}},
	{name: "configured weights outrank endpoint weights", needs: []Ability{HostWeights}, list: []Endpoint{
		{Weight: 3},
		{Weight: 1},
	}, run: func(t *run) {
		t.configure(fmt.Sprintf(`"weights":{%q:1}`, t.Addr(0)))
		streams := t.open(8)
		t.wantLoads(4, 4)
		t.finish(streams...)
	}},
	{name: "sheds at the cap", endpoints: 2, config: `"max_inflight":2`, run: shedsAtCap},
	{name: "sheds as configured", endpoints: 1, config: `"max_inflight":1,"overload":{"status":503,"retry_after":"2500ms"}`, run: func(t *run) {
		streams := t.open(1)
		t.wantShed(503, "3")
		t.finish(streams...)
		t.wantDrained()
	}},
	{name: "sheds without retry-after", endpoints: 1, config: `"max_inflight":1,"overload":{"retry_after":0}`, run: func(t *run) {
		streams := t.open(1)
		t.wantShed(429, "")
		t.finish(streams...)
		t.wantDrained()
	}},
	{name: "the cap grows with the weight", endpoints: 2, run: func(t *run) {
		t.configure(fmt.Sprintf(`"max_inflight":2,"weights":{%q:2}`, t.Addr(0)))
		streams := t.open(6)
		t.wantLoads(4, 2)
		t.wantShed(429, "1")
		t.finish(streams...)
		t.wantDrained()
	}},
	{name: "Higress's name for the cap", endpoints: 1, config: `"maxRequestCount":1`, run: func(t *run) {
		streams := t.open(1)
		t.wantShed(429, "1")
		t.finish(streams...)
	}},
	{name: "tokens in flight", endpoints: 2, config: `"unit":"tokens","output_tokens":1000`, run: tokensInFlight},
	{name: "answers teach how long they are", endpoints: 1, needs: []Ability{PickWorker}, run: func(t *run) {
		t.configure(`"unit":"tokens","output_tokens":400`)
		for range 2 {
			s := t.Open(Request{Frames: []string{completion(400, 0)}})
			s.Head(200)
			s.Data(`{"usage":{"prompt_tokens":100,"completion_tokens":150}}`)
			t.finish(s)
			t.wantDrained()
		}
		s := t.Open(Request{Frames: []string{completion(400, 0)}})
		t.wantTokens(250)
		t.finish(s)
		s = t.Open(Request{Frames: []string{completion(400, 1_000_000)}}) // as without a limit
		t.wantTokens(250)
		t.finish(s)
		t.wantDrained()
	}},
	{name: "tokens fall with the first byte", endpoints: 2, config: `"unit":"tokens","output_tokens":100`, run: func(t *run) {
		s := t.Open(Request{Frames: []string{`{"stream":true,` + completion(4000, 0)[1:]}})
		t.wantTokens(tokensAt(t, s, 1100)...)
		s.Head(200)
		t.wantTokens(tokensAt(t, s, 1100)...)
		s.Data(wordEvent)
		t.wantTokens(tokensAt(t, s, 100)...)
		s.Data(wordEvent)
		t.wantTokens(tokensAt(t, s, 100)...)
		t.finish(s)
		t.wantDrained()
	}},
	{name: "tokens stay until a whole answer is there", endpoints: 2, config: `"unit":"tokens","output_tokens":100`, run: func(t *run) {
		s := t.Open(Request{Frames: []string{completion(4000, 0)}})
		t.wantTokens(tokensAt(t, s, 1100)...)
		s.Head(200)
		s.Data(`{"id":`)
		other := t.Open(Request{Frames: []string{completion(400, 100)}})
		if other.Upstream() == s.Upstream() {
			t.Error("the next request went to the endpoint with the long prompt")
		}
		want := []int64{200, 200}
		want[s.Upstream()] = 1100
		t.wantTokens(want...)
		t.finish(s, other)
		t.wantDrained()
	}},
}

func shedsAtCap(t *run) {
	t.mark(decisions("chosen"), decisions("at_capacity"))
	streams := t.open(4)
	t.wantLoads(2, 2)
	t.wantShed(429, "1")
	t.wantShed(429, "1")
	t.wantLoads(2, 2)
	freed := streams[3].Upstream()
	t.finish(streams[3])
	streams[3] = t.open(1)[0]
	if got := streams[3].Upstream(); got != freed {
		t.Errorf("the next request went to %d, want %d, which has room", got, freed)
	}
	t.finish(streams...)
	t.wantDrained()
	t.wantGrown(decisions("chosen"), 5)
	t.wantGrown(decisions("at_capacity"), 2)
}

// wantShed sends a request and fails the test unless the plugin answers it.
func (t *run) wantShed(status int, retryAfter string) {
	t.Helper()
	s := t.Open(chat())
	if at := s.Upstream(); at >= 0 {
		t.Errorf("the request went to endpoint %d, which is at its cap", at)
		s.Finish()
		return
	}
	r := s.Result()
	if r.Status != status || r.Headers["retry-after"] != retryAfter || !strings.Contains(r.Body, `"code":"at_capacity"`) {
		t.Errorf("answered %d, retry-after %q, %q; want %d and %q", r.Status, r.Headers["retry-after"], r.Body,
			status, retryAfter)
	}
	t.wantReason(s, "at_capacity")
}

// completion is a body with a prompt of n bytes that limits the answer to so many tokens, 0 for no limit.
func completion(n, limit int) string {
	body := `{"model":"m","prompt":"` + strings.Repeat("x", n) + `"`
	if limit > 0 {
		body += fmt.Sprintf(`,"max_tokens":%d`, limit)
	}
	return body + "}"
}

// tokensAt returns a list of loads: n where the stream is, else 0.
func tokensAt(t *run, s Stream, n int64) []int64 {
	l := t.at(s.Upstream())
	l[s.Upstream()] = n
	return l
}

// tokensInFlight sends one long prompt, and short ones until both endpoints have about the same.
func tokensInFlight(t *run) {
	long := t.Open(Request{Frames: []string{completion(40_000, 1000)}})
	t.wantTokens(tokensAt(t, long, 11_000)...)
	streams := []Stream{long}
	for range 10 {
		s := t.Open(Request{Frames: []string{completion(400, 900)}})
		if s.Upstream() == long.Upstream() {
			t.Errorf("request %d went to the endpoint with the long prompt", len(streams))
		}
		streams = append(streams, s)
	}
	want := []int64{10_000, 10_000}
	want[long.Upstream()] = 11_000
	t.wantTokens(want...)
	t.finish(streams...)
	t.wantDrained()
}
