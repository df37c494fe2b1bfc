package streamtest

import (
	"slices"
	"strings"
	"testing"
)

// The policies under which scenarios run.
const (
	leastRequest    = "global_least_request"
	prefixCache     = "prefix_cache"
	consistentHash  = "consistent_hash"
	endpointMetrics = "endpoint_metrics"
	tokenBudget     = "token_budget"
)

// scenario is one situation in which requests are served.
type scenario struct {
	name   string
	needs  []Ability
	policy string // "" for leastRequest
	config string // members of lb_config beside the usual ones
	// endpoints are there from the start: healthy and of weight 1, unless listed.
	endpoints int
	list      []Endpoint
	bare      bool // the scenario gives the configuration itself
	run       func(t *run)
}

// run is one scenario on one gateway: it plays the clients and the model servers, and checks what comes of it. What a
// scenario may do and want is here, in the streams that the run opens, and in its stats; what one subject needs beside
// that is in the file of the subject, and no subject uses another one's.
type run struct {
	testing.TB
	Gateway
	*stats
	policy string
	size   int // endpoints that are counted
}

// isReal reports whether time passes by itself: on a busy machine, any time between two steps.
func (t *run) isReal() bool { return t.Lacks(SimulatedTime) != "" }

// Open sends a request, wherever that goes.
func (t *run) Open(r Request) *stream { return &stream{Stream: t.Gateway.Open(r), t: t} }

// begin sends a request that has to reach an endpoint.
func (t *run) begin(r Request) *stream {
	t.Helper()
	s := t.Open(r)
	s.wantSent()
	return s
}

// chats sends n usual requests, one after the other over all workers, which have to reach endpoints.
func (t *run) chats(n int) []*stream {
	t.Helper()
	out := make([]*stream, n)
	for i := range out {
		out[i] = t.begin(t.chatIn(i))
	}
	return out
}

// play sends a request that has to reach an endpoint, and has it answered.
func (t *run) play(r Request) *stream {
	t.Helper()
	s := t.begin(r)
	t.finish(s)
	return s
}

// finish ends streams normally.
func (t *run) finish(streams ...*stream) {
	t.Helper()
	for _, s := range streams {
		s.Finish()
		if r := s.Result(); r.Status != 200 || r.Cut {
			t.Errorf("the client got status %d, cut %v", r.Status, r.Cut)
		}
	}
}

// serve sends n usual requests one after the other, answers each with 200 and returns how many each endpoint had.
func (t *run) serve(n int) []int {
	t.Helper()
	counts := make([]int, t.size)
	for i := range n {
		r := t.chatIn(i)
		r.NoRetry = true
		s := t.Open(r)
		if at := s.Upstream(); at >= 0 {
			counts[at]++
			s.Head(200)
			s.Finish()
		}
		s.Result()
	}
	return counts
}

// warm sends requests until the gateway sends them where the plugin chooses: it may learn of new endpoints later than
// the plugin. Requests and retries that go astray because of that are tested by another scenario.
func (t *run) warm() {
	t.Helper()
	for row := 0; row < 2*t.size; {
		s := t.play(chat())
		if row++; s.header("x-warmgate-host") != t.Addr(s.Upstream()) {
			row = 0
		}
	}
}

// answer sends a request, has it answered with the body, and waits until it is no longer counted.
func (t *run) answer(r Request, body string) *stream {
	t.Helper()
	s := t.begin(r)
	s.Head(200)
	s.Data(body)
	t.finish(s)
	t.wantDrained()
	return s
}

// weigh sends a request and returns the work that it counted while in flight.
func (t *run) weigh(r Request) (tokens int64) {
	t.Helper()
	s := t.begin(r)
	t.Await(func() bool { tokens = t.Load(s.Upstream()).Tokens; return tokens > 0 })
	t.finish(s)
	t.wantDrained()
	return tokens
}

// setPages sets the pages of the first endpoints.
func (t *run) setPages(pages ...string) {
	for i, page := range pages {
		t.SetPage(i, page)
	}
}

// wantLoads fails the test unless the requests in flight per endpoint come to be those wanted.
func (t *run) wantLoads(want ...int64) {
	t.Helper()
	t.wantInflight("requests", func(l Load) int64 { return l.Requests }, want)
}

// wantTokens is wantLoads for tokens.
func (t *run) wantTokens(want ...int64) {
	t.Helper()
	t.wantInflight("tokens", func(l Load) int64 { return l.Tokens }, want)
}

func (t *run) wantInflight(unit string, of func(Load) int64, want []int64) {
	t.Helper()
	got := make([]int64, len(want))
	if !t.Await(func() bool {
		for i := range want {
			got[i] = of(t.Load(i))
		}
		return slices.Equal(got, want)
	}) {
		t.Errorf("%s in flight: %v, want %v", unit, got, want)
	}
}

// wantDrained fails the test unless nothing is in flight any more.
func (t *run) wantDrained() {
	t.Helper()
	t.wantLoads(make([]int64, t.size)...)
	t.wantTokens(make([]int64, t.size)...)
}

// wantShed sends a usual request and fails the test unless the plugin refuses it because every endpoint is at its cap.
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
	s.wantReason("at_capacity")
}

// sendLarge sends 10 MB, which have to arrive.
func (t *run) sendLarge() {
	t.Helper()
	frame := strings.Repeat("abcdefgh", 8<<10)
	frames := []string{`{"model":"m","prompt":"`}
	for range 160 {
		frames = append(frames, frame)
	}
	frames = append(frames, `"}`)
	chosen := decisionsOf(t.policy, "chosen")
	t.mark(chosen)
	s := t.Open(Request{Frames: frames})
	s.wantReceived(strings.Join(frames, ""))
	s.wantCounted()
	t.finish(s)
	t.wantDrained()
	t.wantGrown(chosen, 1)
}
