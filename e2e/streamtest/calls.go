package streamtest

// idleCalls have the shape of requests, and compute nothing.
var idleCalls = []Request{
	{Path: "/v1/models"},
	{Path: "/health"},
	{Path: "/v1/messages/count_tokens", Frames: chat().Frames},
	{Path: "/v1/responses/input_tokens?x=1", Frames: chat().Frames},
	{Path: "/tokenize", Frames: []string{`{"prompt":"`}, Unended: true}, // not held for its body
	{Path: "/v1/responses/resp_1", Method: "DELETE"},
}

// callScenarios send calls that compute nothing.
var callScenarios = []scenario{
	{name: "count no tokens and meet no cap", endpoints: 2, config: guessed + `,"max_inflight":1`, run: func(t *run) {
		busy := t.begin(chat())
		if !t.Await(func() bool { return t.Load(busy.Upstream()).Tokens > 0 }) {
			t.Fatal("a request counts no tokens")
		}
		before := []int64{t.Load(0).Tokens, t.Load(1).Tokens}
		for _, r := range idleCalls {
			open := []*stream{t.begin(r), t.begin(r), t.begin(r)}
			if open[0].Upstream() == busy.Upstream() {
				t.Errorf("%s is sent where a request is, although another endpoint is idle", r.Path)
			}
			t.wantTokens(before...)
			endCalls(t, r, open...)
		}
		t.finish(busy)
		t.wantDrained()
	}},
	{name: "never wait in a queue", endpoints: 1, config: `"max_inflight":1,"queue":{"max_wait":"60s"}`, run: func(t *run) {
		busy := t.begin(chat())
		for _, r := range idleCalls {
			endCalls(t, r, t.begin(r))
		}
		t.finish(busy)
		t.wantDrained()
	}},
	{name: "are never charged", endpoints: 1, run: func(r *run) {
		t := r.budgets("", `"weight":1,"max_tokens_per_minute":205,"max_requests_per_minute":100`)
		for _, r := range append(idleCalls, Request{Path: "/unknown"}) {
			for range 3 {
				s := t.begin(r)
				endCalls(t.run, r, s)
				if n := s.header("x-warmgate-charged-tokens"); n != "" {
					t.Errorf("%s is charged %s tokens", r.Path, n)
				}
			}
		}
		t.finish(t.budgeted(0, ""), t.budgeted(1, ""))
		t.refused("", "over_budget")
		t.wantDrained()
	}},
	{name: "are no cached prompts", policy: prefixCache, endpoints: 3, run: func(t *run) {
		r := t.conversation(1)
		count := r
		count.Path = "/v1/messages/count_tokens"
		for range 6 {
			t.play(count)
		}
		s := t.play(r)
		if match := s.header("x-warmgate-match"); match != "0.00" {
			t.Errorf("match %s of a prompt of which only tokens were counted", match)
		}
		t.wantDrained()
	}},
	{name: "say nothing of an endpoint", endpoints: 4, run: func(t *run) {
		for i := range 120 {
			r := idleCalls[i%3]
			r.Worker, r.NoRetry = i%t.Workers(), true
			s := t.begin(r)
			s.Head([]int{200, 404, 500, 501}[s.Upstream()])
			s.Finish()
			s.Result()
		}
		t.wantDrained()
		open := t.chats(8)
		got := [4]int{}
		for _, s := range open {
			got[s.Upstream()]++
		}
		if got != [4]int{2, 2, 2, 2} {
			t.Errorf("of 8 requests endpoints get %v after their answers to other calls", got)
		}
		t.finish(open...)
		t.wantDrained()
	}},
}

// endCalls ends calls of the kind.
func endCalls(t *run, r Request, open ...*stream) {
	t.Helper()
	for _, s := range open {
		if r.Unended {
			s.Send(`x"}`, true)
		}
	}
	t.finish(open...)
}
