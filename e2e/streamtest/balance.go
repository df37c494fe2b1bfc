package streamtest

import (
	"fmt"
	"slices"
)

var balanceScenarios = []scenario{
	{name: "least loaded over all workers", endpoints: 3, run: func(t *run) {
		streams := t.chats(9)
		t.wantLoads(3, 3, 3)
		t.finish(streams...)
		t.wantDrained()
	}},
	{name: "the freed endpoint is next", endpoints: 3, run: func(t *run) {
		streams := t.chats(6)
		for _, i := range []int{4, 0, 5, 3} {
			freed := streams[i].Upstream()
			t.finish(streams[i])
			streams[i] = t.chats(1)[0]
			if got := streams[i].Upstream(); got != freed {
				t.Errorf("endpoint %d was freed, but the next request went to %d", freed, got)
			}
		}
		t.finish(streams...)
		t.wantDrained()
	}},
	{name: "ties go to all", endpoints: 3, run: func(t *run) {
		if counts := t.serve(48); slices.Min(counts) == 0 {
			t.Errorf("one after the other, the endpoints got %v requests: one got none", counts)
		}
		t.wantDrained()
	}},
	{name: "configured weights", endpoints: 2, run: func(t *run) {
		t.apply(fmt.Sprintf(`"weights":{%q:3}`, t.Addr(1)))
		streams := t.chats(8)
		t.wantLoads(2, 6)
		t.finish(streams...)
		t.wantDrained()
	}},
	{name: "endpoint weights", needs: []Ability{HostWeights}, list: []Endpoint{
		{Weight: 3},
		{Weight: 1},
	}, run: func(t *run) {
		streams := t.chats(8)
		t.wantLoads(6, 2)
		t.finish(streams...)
	}},
	{name: "configured weights outrank endpoint weights", needs: []Ability{HostWeights}, list: []Endpoint{
		{Weight: 3},
		{Weight: 1},
	}, run: func(t *run) {
		t.apply(fmt.Sprintf(`"weights":{%q:1}`, t.Addr(0)))
		streams := t.chats(8)
		t.wantLoads(4, 4)
		t.finish(streams...)
	}},
	{name: "sheds at the cap", endpoints: 2, config: `"max_inflight":2`, run: shedsAtCap},
	{name: "sheds as configured", endpoints: 1, config: `"max_inflight":1,"overload":{"status":503,"retry_after":"2500ms"}`, run: func(t *run) {
		streams := t.chats(1)
		t.wantShed(503, "3")
		t.finish(streams...)
		t.wantDrained()
	}},
	{name: "sheds without retry-after", endpoints: 1, config: `"max_inflight":1,"overload":{"retry_after":0}`, run: func(t *run) {
		streams := t.chats(1)
		t.wantShed(429, "")
		t.finish(streams...)
		t.wantDrained()
	}},
	{name: "the cap grows with the weight", endpoints: 2, run: func(t *run) {
		t.apply(fmt.Sprintf(`"max_inflight":2,"weights":{%q:2}`, t.Addr(0)))
		streams := t.chats(6)
		t.wantLoads(4, 2)
		t.wantShed(429, "1")
		t.finish(streams...)
		t.wantDrained()
	}},
	{name: "Higress's name for the cap", endpoints: 1, config: `"maxRequestCount":1`, run: func(t *run) {
		streams := t.chats(1)
		t.wantShed(429, "1")
		t.finish(streams...)
	}},
	{name: "tokens in flight", endpoints: 2, config: `"unit":"tokens","output_tokens":1000`, run: tokensInFlight},
	{name: "answers teach how long they are", endpoints: 1, needs: []Ability{PickWorker}, run: func(t *run) {
		t.apply(`"unit":"tokens","output_tokens":400`)
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
	{name: "tokens fall with the first byte", endpoints: 2, config: guessed, run: func(t *run) {
		s := t.Open(Request{Frames: []string{`{"stream":true,` + completion(4000, 0)[1:]}})
		s.wantTokens(1100)
		s.Head(200)
		s.wantTokens(1100)
		s.Data(wordEvent)
		s.wantTokens(100)
		s.Data(wordEvent)
		s.wantTokens(100)
		t.finish(s)
		t.wantDrained()
	}},
	{name: "tokens stay until a whole answer is there", endpoints: 2, config: guessed, run: func(t *run) {
		s := t.Open(Request{Frames: []string{completion(4000, 0)}})
		s.wantTokens(1100)
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
	streams := t.chats(4)
	t.wantLoads(2, 2)
	t.wantShed(429, "1")
	t.wantShed(429, "1")
	t.wantLoads(2, 2)
	freed := streams[3].Upstream()
	t.finish(streams[3])
	streams[3] = t.chats(1)[0]
	if got := streams[3].Upstream(); got != freed {
		t.Errorf("the next request went to %d, want %d, which has room", got, freed)
	}
	t.finish(streams...)
	t.wantDrained()
	t.wantGrown(decisions("chosen"), 5)
	t.wantGrown(decisions("at_capacity"), 2)
}

// tokensInFlight sends one long prompt, and short ones until both endpoints have about the same.
func tokensInFlight(t *run) {
	long := t.Open(Request{Frames: []string{completion(40_000, 1000)}})
	long.wantTokens(11_000)
	streams := []*stream{long}
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
