package lb

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb/budget"
)

// budgetPolicy returns token_budget for targets, and the health that it looks at.
func budgetPolicy(t *testing.T, cfg BudgetConfig, cluster ClusterConfig) Policy {
	t.Helper()
	p, err := New("token_budget", Config{Settings: &cfg, Cluster: cluster, Health: NewHealth()})
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
	}}, ClusterConfig{MaxInflight: 20})
	view := &View{Cluster: "llm", Endpoints: []Endpoint{
		{Addr: "d"}, {Addr: "b"}, {Addr: "c"}, {Addr: "a"}, {Addr: "sick", State: Unhealthy},
	}}
	r := &Request{PromptTokens: 700, OutputTokens: 56}
	plan, reason := p.Plan(time.Hour, r, view)
	if reason != ReasonChosen || !plan.HasBudget() || plan.Unit != Tokens || plan.Scope != "llm" {
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
		ClusterConfig{})
	plan, _ := p.Plan(time.Hour, &Request{}, &View{Cluster: "llm", Endpoints: []Endpoint{{Addr: "a"}}})
	if plan.Budget.Tokens != 1 {
		t.Errorf("charges %d tokens", plan.Budget.Tokens)
	}
}

// Without a target among what is healthy there is no plan: native balancing decides.
func TestNoTargetIsHealthy(t *testing.T) {
	p := budgetPolicy(t, BudgetConfig{Targets: []BudgetTarget{{Name: "a", Limits: budget.Limits{Weight: 1}}}},
		ClusterConfig{})
	for _, view := range []*View{
		{Cluster: "llm", Endpoints: []Endpoint{{Addr: "b"}}},
		{Cluster: "llm", Endpoints: []Endpoint{{Addr: "a", State: Unhealthy}, {Addr: "b"}}},
	} {
		if plan, reason := p.Plan(time.Hour, &Request{}, view); reason != ReasonNoHealthyEndpoint || plan.HasBudget() {
			t.Errorf("%v, %+v", reason, plan)
		}
	}
}

// A tenant is the only candidate of its plan, in the scope of tenants, and what limits it is that of all tenants.
func TestTenantPlan(t *testing.T) {
	b := TenantBudget{Header: "x-tenant", Limits: budget.Limits{Tokens: 1000, Requests: 5}, MaxConcurrent: 3}
	plan := b.Plan("tenants/llm", 0xabc, 20)
	c := plan.Candidates[0]
	if !plan.HasBudget() || plan.Scope != "tenants/llm" || c.Addr != "abc" || c.Cap != 3 || plan.Budget.Tokens != 20 ||
		plan.Budget.Limits[0] != (budget.Limits{Weight: 1, Tokens: 1000, Requests: 5}) {
		t.Errorf("%+v", plan)
	}
	for _, b := range []TenantBudget{{}, {Header: "x-tenant"}, {MaxConcurrent: 3}} {
		if b.Limited() {
			t.Errorf("%+v limits tenants", b)
		}
	}
	if !b.Limited() {
		t.Errorf("%+v limits no tenants", b)
	}
}
