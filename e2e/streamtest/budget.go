package streamtest

import (
	"cmp"
	"strconv"
	"time"
)

// budgetScenarios are those of token_budget. A usual request is charged a little more than 100 tokens there.
var budgetScenarios = []scenario{
	{name: "shares by weight", endpoints: 2, run: func(r *run) {
		t := r.budgets("", `"weight":3`, `"weight":1`)
		t.mark(decisionsOf(tokenBudget, "chosen"))
		got := [2]int{}
		var open []*stream
		for range 8 {
			s := t.budgeted(0, "")
			got[s.Upstream()]++
			open = append(open, s)
		}
		if got != [2]int{6, 2} {
			t.Errorf("requests %v, want 6 and 2", got)
		}
		t.wantLoads(6, 2)
		charged := charge(open[0])
		t.wantInflight("tokens", func(l Load) int64 { return l.Tokens % charged }, []int64{0, 0})
		t.finish(open[1:]...)
		t.wantGrown(decisionsOf(tokenBudget, "chosen"), 8)
		t.wantDrained()
	}},
	{name: "tokens a minute", endpoints: 1, run: func(r *run) {
		t := r.budgets("", `"weight":1,"max_tokens_per_minute":205`)
		t.finish(t.budgeted(0, ""), t.budgeted(1, ""))
		t.Advance(time.Second) // gauges are set at heartbeats
		left := t.ofEndpoint("warmgate_budget_left_tokens", 0)
		if !t.Await(func() bool { n := t.Gauge(left); return n > 0 && n < 100 }) {
			t.Errorf("%d tokens are left by the gauge", t.Gauge(left))
		}
		s := t.refused("", "over_budget")
		h := s.Result().Headers
		remaining, err := strconv.Atoi(h["x-ratelimit-remaining-tokens"])
		wait, wrong := time.ParseDuration(h["x-ratelimit-reset-tokens"])
		if h["x-ratelimit-limit-tokens"] != "205" || err != nil || remaining > 100 || wrong != nil ||
			wait < 0 || wait > 33*time.Second || wait%(100*time.Millisecond) != 0 {
			t.Errorf("limit %q, remaining %q, reset %q", h["x-ratelimit-limit-tokens"],
				h["x-ratelimit-remaining-tokens"], h["x-ratelimit-reset-tokens"])
		}
		if ms := strconv.FormatInt(wait.Milliseconds(), 10); h["retry-after-ms"] != ms {
			t.Errorf("retry after %q ms, want %s", h["retry-after-ms"], ms)
		}
		s.wantRetryAfter(25, 33)
		t.wantDrained()
	}},
	{name: "refills", endpoints: 1, needs: []Ability{RefillTime}, run: func(r *run) {
		t := r.budgets("", `"weight":1,"max_tokens_per_minute":250`)
		t.finish(t.budgeted(0, ""), t.budgeted(1, ""))
		ms, err := strconv.Atoi(t.refused("", "over_budget").Result().Headers["retry-after-ms"])
		if err != nil {
			t.Fatal(err)
		}
		t.Advance(time.Duration(ms) * time.Millisecond * 8 / 10)
		t.refused("", "over_budget")
		t.Advance(time.Duration(ms) * time.Millisecond * 4 / 10)
		t.finish(t.budgeted(0, ""))
		t.wantDrained()
	}},
	{name: "requests a minute", endpoints: 1, run: func(r *run) {
		t := r.budgets("", `"weight":1,"max_requests_per_minute":2`)
		t.finish(t.budgeted(0, ""), t.budgeted(1, ""))
		h := t.refused("", "over_budget").Result().Headers
		if h["x-ratelimit-limit-requests"] != "2" || h["x-ratelimit-remaining-requests"] != "0" ||
			h["x-ratelimit-limit-tokens"] != "" {
			t.Errorf("headers %v", h)
		}
		t.wantDrained()
	}},
	{name: "never more than the cap", endpoints: 2, run: func(r *run) {
		t := r.budgets("", `"weight":5,"max_concurrent_requests":2`, `"weight":1,"max_concurrent_requests":1`)
		var open []*stream
		for i := range 3 {
			open = append(open, t.budgeted(i, ""))
		}
		t.wantLoads(2, 1)
		s := t.refused("", "over_budget")
		if h := s.Result().Headers; h["x-ratelimit-limit-tokens"] != "" || h["retry-after-ms"] == "" {
			t.Errorf("headers %v", h)
		}
		t.finish(open...)
		t.wantDrained()
		t.finish(t.budgeted(0, ""))
		t.wantDrained()
	}},
	{name: "usage gives back", endpoints: 1, run: func(r *run) {
		t := r.budgets("", `"weight":1,"max_tokens_per_minute":120`) // for one estimate, and what the others have used
		for i, usage := range []string{
			`{"usage":{"prompt_tokens":3,"completion_tokens":1}}`,
			"data: {\"choices\":[]}\n\n" +
				"data: {\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n",
		} {
			s := t.budgeted(i, "")
			s.reply(200, usage)
			t.wantDrained()
		}
		t.finish(t.budgeted(0, ""))
		t.wantDrained()
	}},
	{name: "usage charges more", endpoints: 1, run: func(r *run) {
		t := r.budgets("", `"weight":1,"max_tokens_per_minute":1000`)
		s := t.budgeted(0, "")
		s.reply(200, `{"usage":{"prompt_tokens":40000,"completion_tokens":10000}}`)
		t.wantDrained()
		t.refused("", "over_budget").wantRetryAfter(2000, 3600)
		t.wantDrained()
	}},
	{name: "a local reply is given back", endpoints: 1, needs: []Ability{LocalReply}, run: func(r *run) {
		t := r.budgets("", `"weight":1,"max_tokens_per_minute":108`)
		for range 3 {
			r := chat()
			r.Local = 418
			if s := t.Open(r); s.Result().Status != 418 {
				t.Errorf("status %d", s.Result().Status)
			}
			t.wantDrained()
		}
		t.finish(t.budgeted(0, ""))
		t.wantDrained()
	}},
	{name: "a refused request is given back", endpoints: 1, run: func(r *run) {
		t := r.budgets("", `"weight":1,"max_tokens_per_minute":108`)
		for _, status := range []int{400, 404} {
			s := t.budgeted(0, "")
			s.reply(status, "")
			t.wantDrained()
		}
		t.finish(t.budgeted(0, ""))
		t.refused("", "over_budget")
		t.wantDrained()
	}},
	{name: "a failure is charged", endpoints: 1, run: func(r *run) {
		t := r.budgets("", `"weight":1,"max_tokens_per_minute":108`)
		s := t.budgeted(0, "")
		s.reply(500, "")
		t.wantDrained()
		t.refused("", "over_budget")
		t.wantDrained()
	}},
	{name: "a retry takes the charge along", endpoints: 2, needs: []Ability{SecondHop}, run: func(r *run) {
		t := r.budgets("", `"weight":1,"max_tokens_per_minute":108`, `"weight":1,"max_tokens_per_minute":108`)
		s := t.Open(chat())
		first := s.Upstream()
		if moved := s.Retry(); moved == first {
			t.Fatalf("the retry went to endpoint %d again", moved)
		}
		t.finish(s)
		t.wantDrained()
		next := t.budgeted(1, "")
		if next.Upstream() != first {
			t.Error("the endpoint that has not served is charged")
		}
		t.finish(next)
		t.refused("", "over_budget")
		t.wantDrained()
	}},
	{name: "a 429 closes", endpoints: 2, run: closesBy429},
	{name: "what is left closes", endpoints: 2, run: closesByWhatIsLeft},
	{name: "tenants", endpoints: 1, run: budgetsOfTenants},
	{name: "limits that are pushed", endpoints: 1, run: func(r *run) {
		t := r.budgets("", `"weight":1,"max_concurrent_requests":1,"max_tokens_per_minute":1000`)
		first := t.budgeted(0, "")
		t.refused("", "over_budget")
		t = t.budgets("", `"weight":1,"max_concurrent_requests":2,"max_tokens_per_minute":1000`)
		second := t.budgeted(1, "")
		t.wantLoads(2)
		t = t.budgets("", `"weight":1,"max_concurrent_requests":9,"max_tokens_per_minute":150`)
		third := t.budgeted(0, "") // the bucket stays as full as it was, by its size
		t.refused("", "over_budget")
		t.finish(first, second, third)
		t.wantDrained()
	}},
	{name: "waits for a place", endpoints: 1, run: func(r *run) {
		t := r.budgets(`,"queue":{"max_wait":"10m"}`, `"weight":1,"max_concurrent_requests":1`)
		for worker := range t.Workers() {
			busy := t.budgeted(0, "")
			s := t.Open(t.ofTenant(worker, ""))
			s.wantHeld()
			t.finish(busy)
			s.wantServed()
			t.finish(s)
			s.wantReason("chosen")
		}
		t.wantDrained()
	}},
	{name: "waits for tokens", endpoints: 1, needs: []Ability{RefillTime}, run: func(r *run) {
		t := r.budgets(`,"queue":{"max_wait":"100s"}`, `"weight":1,"max_tokens_per_minute":204`)
		t.finish(t.budgeted(0, ""), t.budgeted(1, ""))
		t.wantDrained()
		s := t.Open(t.ofTenant(0, ""))
		t.Advance(25 * time.Second)
		s.wantHeld()
		t.Advance(7 * time.Second)
		s.wantServed()
		t.finish(s)
		t.wantDrained()
	}},
	{name: "waits in vain", endpoints: 1, needs: []Ability{SimulatedTime}, run: func(r *run) {
		t := r.budgets(`,"queue":{"max_wait":"5s"}`, `"weight":1,"max_concurrent_requests":1`)
		busy := t.budgeted(0, "")
		s := t.Open(t.ofTenant(1, ""))
		t.Advance(6 * time.Second)
		s.wantShedFor("queue_timeout")
		t.finish(busy)
		t.wantDrained()
	}},
	{name: "no target", endpoints: 1, run: func(t *run) {
		t.policy = tokenBudget
		t.apply(`"targets":{"10.9.9.9:9":{"weight":1}}`)
		s := t.Open(chat())
		t.finish(s)
		s.wantReason("no_healthy_endpoint")
		t.wantDrained()
	}},
}

// closesBy429 has a server say that it takes nothing for a minute: it gets nothing, whichever worker has the request.
func closesBy429(r *run) {
	t := r.budgets("", `"weight":1`, `"weight":1`)
	s := t.budgeted(0, "")
	closed := s.Upstream()
	restricted := t.restrictions(closed, "retry_after")
	t.mark(restricted)
	s.reply(429, "", [2]string{"retry-after", "60"}, [2]string{"x-ratelimit-remaining-tokens", "90000"},
		[2]string{"x-ratelimit-limit-tokens", "100000"}, [2]string{"x-ratelimit-reset-tokens", "6s"})
	t.wantDrained()
	t.wantGrown(restricted, 1)
	for i := range 6 {
		s := t.budgeted(i, "")
		if s.Upstream() == closed {
			t.Errorf("request %d goes where none may go", i)
		}
		if i < 5 {
			t.finish(s)
			continue
		}
		s.reply(429, "", [2]string{"retry-after", "30"})
	}
	t.wantDrained()
	t.refused("", "over_budget").wantRetryAfter(24, 34)
	t.wantDrained()
}

// closesByWhatIsLeft has a server say, in Anthropic's words, that it has nothing left until a time of day; and one, in
// OpenAI's, that it has little.
func closesByWhatIsLeft(r *run) {
	t := r.budgets("", `"weight":1`, `"weight":1,"max_tokens_per_minute":100000`)
	for range 2 {
		s := t.budgeted(0, "")
		if s.Upstream() == 0 {
			s.reply(200, "", [2]string{"date", "Fri, 30 Jan 2026 12:00:00 GMT"},
				[2]string{"anthropic-ratelimit-tokens-limit", "80000"},
				[2]string{"anthropic-ratelimit-tokens-remaining", "0"},
				[2]string{"anthropic-ratelimit-tokens-reset", "2026-01-30T12:00:40Z"})
		} else {
			s.reply(200, "", [2]string{"x-ratelimit-remaining-tokens", "99"},
				[2]string{"x-ratelimit-reset-tokens", "59s"})
		}
		t.wantDrained()
	}
	t.wantGrown(t.restrictions(0, "tokens"), 1)
	t.wantGrown(t.restrictions(1, "tokens"), 1)
	t.wantDrained()
}

// budgetsOfTenants has a tenant use up its budget: it is refused, and nobody else notices.
func budgetsOfTenants(r *run) {
	const tenants = `"tenants":{"tenant_header":"x-tenant","max_tokens_per_minute":205,"max_concurrent_requests":2}`
	t := r.budgets(","+tenants, `"weight":1`)
	open := []*stream{t.budgeted(0, "a"), t.budgeted(1, "a")}
	refusals := t.ofCluster("warmgate_budget_refusals_total") + ";reason=tenant_over_budget"
	t.mark(refusals)
	t.refused("a", "tenant_over_budget")
	open = append(open, t.budgeted(0, "b"), t.budgeted(1, ""))
	t.wantLoads(4)
	t.finish(open...)
	t.wantDrained()
	s := t.refused("a", "tenant_over_budget") // no request of it is in flight, but its tokens are used up
	if h := s.Result().Headers; h["x-ratelimit-limit-tokens"] != "205" {
		t.Errorf("headers %v", h)
	}
	s = t.budgeted(1, "c")
	s.reply(200, `{"usage":{"prompt_tokens":3,"completion_tokens":1}}`)
	t.wantDrained()
	t.finish(t.budgeted(0, "c"))
	t.wantGrown(refusals, uint64(2*t.Workers()))
	t.wantDrained()
}

// charge ends a request and returns how many tokens it was charged.
func charge(s *stream) int64 {
	s.t.Helper()
	s.t.finish(s)
	text := s.header("x-warmgate-charged-tokens")
	n, err := strconv.ParseInt(cmp.Or(text, "none"), 10, 64)
	if err != nil || n < 100 || n > 108 {
		s.t.Errorf("charged %q tokens", text)
	}
	return n
}
