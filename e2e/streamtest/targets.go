package streamtest

import (
	"strconv"
	"strings"
	"time"
)

// budgets is a run under token_budget, with a target for each endpoint.
type budgets struct {
	*run
	spent time.Time // when they were configured, or last had room for one request more
}

// refillsIn is the least time in which a budget of the scenarios has room for a request again.
const refillsIn = 25 * time.Second

// budgets configures a target for each endpoint, in their order.
func (t *run) budgets(members string, targets ...string) *budgets {
	t.Helper()
	t.policy = tokenBudget
	var parts []string
	for i, target := range targets {
		parts = append(parts, strconv.Quote(t.Addr(i))+":{"+target+"}")
	}
	t.apply(`"output_tokens":100,"targets":{` + strings.Join(parts, ",") + `}` + members)
	return &budgets{run: t, spent: time.Now()}
}

// ofTenant is a usual request of that tenant through a worker.
func (t *budgets) ofTenant(worker int, tenant string) Request {
	r := t.chatIn(worker)
	r.NoRetry = true
	if tenant != "" {
		r.Headers = [][2]string{{"x-tenant", tenant}}
	}
	return r
}

// budgeted sends such a request, which is to be placed.
func (t *budgets) budgeted(worker int, tenant string) *stream {
	t.Helper()
	return t.begin(t.ofTenant(worker, tenant))
}

// refused sends such a request to each worker: all are to be refused. It returns the last one.
func (t *budgets) refused(tenant, reason string) (s *stream) {
	t.Helper()
	for worker := range t.Workers() {
		s = t.Open(t.ofTenant(worker, tenant))
		for s.Upstream() >= 0 && t.isReal() && time.Since(t.spent) > refillsIn { // a busy machine
			t.finish(s)
			s, t.spent = t.Open(t.ofTenant(worker, tenant)), time.Now()
		}
		r := s.Result()
		if r.Status != 429 || !strings.Contains(r.Body, `"code":"`+reason+`"`) || s.Upstream() >= 0 {
			t.Fatalf("worker %d: %d %s %v", worker, r.Status, r.Body, r.Headers)
		}
		s.wantReason(reason)
	}
	return s
}

// restrictions is the counter of answers that have lowered the budget of an endpoint.
func (t *budgets) restrictions(endpoint int, by string) string {
	return t.ofEndpoint("warmgate_budget_restricted_total", endpoint) + ";reason=" + by
}
