package placement

import (
	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
	"github.com/warmgate/warmgate/lb/price"
	"github.com/warmgate/warmgate/plugin/ratelimit"
	"github.com/warmgate/warmgate/plugin/stats"
)

// This file is how charges end with their request, and what is said of budgets: by a target in its answer, and to a
// client that is refused.

// charging is what a request is charged at its target and its tenant, and what it is given back.
type charging struct{ of *basis }

// endCharges ends the charges of a request that is over, and was charged. Without usage the target's estimate stays,
// unless no model can have worked on the request; the tenant is charged for what has gone by.
//
// t is what has gone by, where that is known: of a stream, or by usage. Of an answer in one piece that broke off, or of
// an error behind which a model may have worked, nobody has seen how much was done: so what was expected remains.
func (ch *charging) endCharges(t *price.Tokens) {
	of := ch.of
	b := &of.Lease.Budget
	if !b.known {
		if unserved, unseen := of.Response.Unserved(of.Gateway); unserved {
			of.Lease.dropCharges(unseen)
			return
		}
	}
	if of.Response.Streamed && of.Response.IsGood() || b.known && !t.Estimated && t.Prompt()+t.Completion() > 0 {
		of.Lease.settle(&b.tenant.charge, ch.ofTenant(*t))
	}
	name := stats.OfEndpoint(stats.BudgetTokens, of.Cluster.Name, b.Target.Addr)
	of.Shared.Stats.CountIf(name, uint64(b.Target.Tokens))
	b.Target, b.tenant.charge = charge{}, charge{}
}

// ofTenant returns for how many the tokens count in the budget of the tenant. A store corrects no charge by more than
// budget.MaxDelta: so no request counts for more, and each charge can be given back whole.
func (ch *charging) ofTenant(t price.Tokens) int64 {
	r, per := ch.of.Config.TenantRates(ch.of.Prompt.Model)
	if r == nil {
		return min(t.Prompt()+t.Completion(), budget.MaxDelta)
	}
	return min(r.Sum(t, per), budget.MaxDelta)
}

// restrict has what the target says of its limits in the headers of an answer shrink its budget for all gateways. What
// shrinks nothing is not reported: as long as a server has half of a limit left, its budget is not what runs out.
//
// Some servers say in the body of a 429 when to try again. It closes for the moment until that has come.
func (ch *charging) restrict(headers [][2]string) {
	of := ch.of
	c := &of.Lease.Budget.Target
	if c.Addr == "" || !of.Response.Reached {
		return
	}
	r, says, silent := ratelimit.Read(of.Response.Status, headers, of.Shared.GW.Wall)
	if silent {
		of.Response.Retry = make([]byte, 0, maxRetryBody)
	}
	if !says {
		return
	}
	limits := limitsOf(&of.Lease.Reservation.Plan, c.Addr)
	if r.Tokens > 0 && 2*r.Tokens >= limits.Tokens {
		r.Tokens = -1
	}
	if r.Requests > 0 && 2*r.Requests >= limits.Requests {
		r.Requests = -1
	}
	by := "requests"
	switch {
	case r.RetryAfter > 0:
		by = "retry_after"
	case r.Tokens >= 0:
		by = "tokens"
	case r.Requests < 0:
		return
	}
	ch.passOn(r)
	of.Shared.Stats.CountIf(statname.With(stats.Restricted,
		"cluster", of.Cluster.Name, "endpoint", c.Addr, "reason", by), 1)
}

// passOn tells the store what the target has said.
func (ch *charging) passOn(r budget.Restriction) {
	l := &ch.of.Lease
	r.MaxClosed = l.Reservation.Plan.Budget.MaxClosed
	l.store.Restrict(l.Now(), l.Budget.Target.scope, l.Budget.Target.Addr, r)
}

// maxRetryBody is how much of the body of a refusal is read.
const maxRetryBody = 4 << 10

// readRetry looks for the time to try again in the part of the body of a refusal that is passing.
func (ch *charging) readRetry(size int) {
	of := ch.of
	r, c := &of.Response, &of.Lease.Budget.Target
	r.Retry = append(r.Retry, of.Gateway.ResponseBody(0, min(size, cap(r.Retry)-len(r.Retry)))...)
	after, ok := ratelimit.RetryDelay(r.Retry)
	if ok && c.Addr != "" {
		ch.passOn(budget.Restriction{Tokens: -1, Requests: -1, RetryAfter: after})
	}
	if ok || len(r.Retry) == cap(r.Retry) {
		r.Retry = nil
	}
}

// limitsOf returns the limits of a candidate.
func limitsOf(p *lb.Plan, addr string) budget.Limits {
	for i := range p.Candidates {
		if p.Candidates[i].Addr == addr {
			return p.Budget.Limits[i]
		}
	}
	return budget.Limits{}
}

// isBudget reports whether the reason is that of a request which a budget has no room for.
func isBudget(why lb.Reason) bool {
	return why == lb.ReasonOverBudget || why == lb.ReasonTenantOverBudget
}
