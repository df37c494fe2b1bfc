package policy

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
	"github.com/warmgate/warmgate/lb/health"
)

// budgetPolicy returns token_budget for targets, and the health that it looks at.
func budgetPolicy(t *testing.T, cfg BudgetConfig, cluster health.ClusterConfig) lb.Policy {
	t.Helper()
	p, err := New("token_budget", Config{Settings: &cfg, Cluster: cluster, Health: health.New()})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Only targets are candidates, with their limits beside them and the lower of two caps.
func TestBudgetsOfTargets(t *testing.T) {
	p := budgetPolicy(t, BudgetConfig{AgeBonus: 5, Targets: []BudgetTarget{
		{Name: "a", Limits: budget.Limits{Weight: 3, Tokens: 1000}, MaxConcurrent: 4},
		{Name: "c", Limits: budget.Limits{Weight: 1, Requests: 60}, MaxConcurrent: 50},
		{Name: "d", Limits: budget.Limits{Weight: 2}},
		{Name: "gone", Limits: budget.Limits{Weight: 9}},
	}}, health.ClusterConfig{MaxInflight: 20})
	view := &lb.View{Cluster: "llm", Endpoints: []lb.Endpoint{
		{Addr: "d"}, {Addr: "b"}, {Addr: "c"}, {Addr: "a"}, {Addr: "sick", State: lb.Unhealthy},
	}}
	r := &lb.Request{PromptTokens: 700, OutputTokens: 56}
	plan, reason := p.Plan(time.Hour, r, view)
	if reason != lb.ReasonChosen || !plan.HasBudget() || plan.Unit != lb.Tokens || plan.Scope != "llm" {
		t.Fatalf("%v, %+v", reason, plan)
	}
	want := []struct {
		addr   string
		cap    int64
		limits budget.Limits
	}{
		{"d", 20, budget.Limits{Weight: 2}},
		{"c", 20, budget.Limits{Weight: 1, Requests: 60}},
		{"a", 4, budget.Limits{Weight: 3, Tokens: 1000}},
	}
	for i, w := range want {
		if c := plan.Candidates[i]; len(plan.Candidates) != len(want) || c.Addr != w.addr || c.Cap != w.cap ||
			plan.Budget.Limits[i] != w.limits {
			t.Errorf("candidate %d of %d: %+v with %+v, want %+v", i, len(plan.Candidates), c, plan.Budget.Limits[i], w)
		}
	}
	if b := plan.Budget; b.Tokens != 756 || b.AgeBonus != 5 || plan.Tokens != 756 {
		t.Errorf("charges %d tokens, %v a second, counts %d", b.Tokens, b.AgeBonus, plan.Tokens)
	}
	if again, _ := p.Plan(time.Hour, r, view); again.Digest() != plan.Digest() {
		t.Error("the same list is another one")
	}
}

// A request that is estimated to be nothing is charged for a token: it is counted all the same.
func TestBudgetOfAnEmptyRequest(t *testing.T) {
	p := budgetPolicy(t, BudgetConfig{Targets: []BudgetTarget{{Name: "a", Limits: budget.Limits{Weight: 1}}}},
		health.ClusterConfig{})
	plan, _ := p.Plan(time.Hour, &lb.Request{}, &lb.View{Cluster: "llm", Endpoints: []lb.Endpoint{{Addr: "a"}}})
	if plan.Budget.Tokens != 1 {
		t.Errorf("charges %d tokens", plan.Budget.Tokens)
	}
}

// Without a target among what is healthy there is no plan: native balancing decides.
func TestNoTargetIsHealthy(t *testing.T) {
	p := budgetPolicy(t, BudgetConfig{Targets: []BudgetTarget{{Name: "a", Limits: budget.Limits{Weight: 1}}}},
		health.ClusterConfig{})
	for _, view := range []*lb.View{
		{Cluster: "llm", Endpoints: []lb.Endpoint{{Addr: "b"}}},
		{Cluster: "llm", Endpoints: []lb.Endpoint{{Addr: "a", State: lb.Unhealthy}, {Addr: "b"}}},
	} {
		plan, reason := p.Plan(time.Hour, &lb.Request{}, view)
		if reason != lb.ReasonNoHealthyEndpoint || plan.HasBudget() {
			t.Errorf("%v, %+v", reason, plan)
		}
	}
}
