package lb_test

import (
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
)

func newPolicy(t testing.TB, unit lb.Unit) lb.Policy {
	t.Helper()
	p, err := lb.New("global_least_request", lb.Config{Unit: unit, Terms: *terms, Health: lb.NewHealth()})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestLeastRequestPlan(t *testing.T) {
	v := viewOf(3)
	r := &lb.Request{PromptTokens: 100, OutputTokens: 20, Tie: 5}
	plan, reason := newPolicy(t, lb.Tokens).Plan(0, r, v)
	if reason != lb.ReasonChosen || plan.Scope != "llm" || plan.Unit != lb.Tokens || plan.Tokens != 120 || plan.Tie != 5 {
		t.Fatalf("%+v, %s", plan, reason)
	}
	for i, c := range plan.Candidates {
		if c.Addr != v.Endpoints[i].Addr || c.Slope != 1 || c.Base != 0 {
			t.Errorf("candidate %d is %+v", i, c)
		}
	}
	if _, reason = newPolicy(t, lb.Requests).Plan(0, r, &lb.View{}); reason != lb.ReasonNoEndpoints {
		t.Errorf("a view without endpoints: %s", reason)
	}
}

func TestLeastRequestObserves(t *testing.T) {
	p, v := newPolicy(t, lb.Requests), viewOf(3)
	p.Plan(0, &lb.Request{}, v)
	for range 5 {
		p.Observe(0, lb.Outcome{Addr: v.Endpoints[0].Addr, Verdict: lb.Failure})
	}
	if plan, _ := p.Plan(time.Second, &lb.Request{}, v); len(plan.Candidates) != 2 {
		t.Fatalf("%d candidates after five failures of one of three", len(plan.Candidates))
	}
}

// A plan is a pure function of its inputs and what was observed.
func TestPlanIsPure(t *testing.T) {
	p, v := newPolicy(t, lb.Requests), viewOf(5)
	a, _ := p.Plan(0, &lb.Request{Tie: 9}, v)
	b, _ := p.Plan(0, &lb.Request{Tie: 9}, v)
	for i := range a.Candidates {
		if a.Candidates[i] != b.Candidates[i] {
			t.Fatalf("candidate %d: %+v and %+v", i, a.Candidates[i], b.Candidates[i])
		}
	}
	if a.Tie != b.Tie {
		t.Fatal("the tie differs")
	}
}

func TestUnknownPolicy(t *testing.T) {
	_, err := lb.New("roulette", lb.Config{})
	if err == nil || !strings.Contains(err.Error(), "roulette") || !strings.Contains(err.Error(), "global_least_request") {
		t.Fatalf("the error should name the policy and the known ones: %v", err)
	}
}

func TestNamesOfReasonsAndStates(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range lb.Reasons() {
		if n := r.String(); n == "" || n == "unknown" || seen[n] {
			t.Errorf("reason %d is called %q", r, n)
		}
		seen[r.String()] = true
	}
	if lb.Reason(200).String() != "unknown" || lb.State(200).String() != "unknown" {
		t.Error("what is not known must say so")
	}
	for s := lb.Healthy; s <= lb.Ejected; s++ {
		if s.String() == "unknown" {
			t.Errorf("state %d has no name", s)
		}
	}
}
