package core

import (
	"strconv"
	"time"

	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/answer"
	"github.com/warmgate/warmgate/lb/budget"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/ratelimit"
	"github.com/warmgate/warmgate/plugin/stats"
)

// A request under token_budget is charged for its estimated tokens in the step that counts it. This file is how the
// charge is corrected: by what the answer says was used, and by what the target says is left of its own limits.

// budgetUse is what a request was charged, and to whom.
type budgetUse struct {
	target charge
	tenant tenantLease
	known  bool // the answer has said what was used
}

// charge is what a request was charged to one budget. The zero value: nothing.
type charge struct {
	id          lb.LeaseID
	scope, addr string
	tokens      int64
}

// text returns how many tokens the target was charged, for the access log, "" without a budget.
func (b *budgetUse) text() string {
	if b.target.addr == "" {
		return ""
	}
	return " charged=" + strconv.FormatInt(b.target.tokens, 10)
}

// settle corrects a charge to the tokens that were used.
func (l *lease) settle(c *charge, used int64) {
	if delta := used - c.tokens; delta != 0 && c.addr != "" {
		c.tokens = used
		l.store.Settle(l.now(), c.id, c.addr, delta, 0)
	}
}

// giveBack gives back a charge with its place among the requests a minute: the target has never seen the request.
func (l *lease) giveBack(c *charge) {
	if c.addr != "" {
		l.store.Settle(l.now(), c.id, c.addr, -c.tokens, -1)
	}
	*c = charge{}
}

// charged notes that the target was charged with the grant.
func (l *lease) charged(addr string) {
	if r := &l.reservation; r.plan.HasBudget() {
		l.budget.target = charge{r.id, r.plan.Scope, addr, r.plan.Budget.Tokens}
	}
}

// moveCharge charges another target than the one before, which serves the request in its place.
func (l *lease) moveCharge(addr string) {
	c := l.budget.target
	if c.addr == "" {
		return
	}
	l.giveBack(&l.budget.target)
	l.store.Settle(l.now(), c.id, addr, c.tokens, 1)
	l.budget.target, l.budget.target.addr = c, addr
}

// estimatedAgain corrects the charges of a request that was estimated before its body had come.
func (l *lease) estimatedAgain(tokens int64) {
	l.settle(&l.budget.target, tokens)
	l.settle(&l.budget.tenant.charge, tokens)
}

// used corrects the charges by the usage in an answer.
func (l *lease) used(tokens int64) {
	if l.budget.target.addr != "" {
		l.budget.known = true
		l.estimatedAgain(tokens)
	}
}

// dropCharges ends the charges of a request on which no model can have worked. unseen: nor has its server got it; else
// it counts as one request, there and for its tenant.
func (l *lease) dropCharges(unseen bool) {
	for _, c := range [2]*charge{&l.budget.target, &l.budget.tenant.charge} {
		if !unseen {
			l.settle(c, 0)
			*c = charge{}
		}
		l.giveBack(c)
	}
}

// charging is what a request is charged at its target and its tenant, and what it is given back.
type charging struct{ pl *placement }

// endCharges ends the charges of a request that is over. Without usage the estimate stays, unless no model can have
// worked on the request.
func (ch *charging) endCharges() {
	pl := ch.pl
	b := &pl.lease.budget
	if b.target.addr == "" {
		return
	}
	if !b.known {
		if unserved, unseen := pl.response.unserved(pl.GatewayStream); unserved {
			pl.lease.dropCharges(unseen)
			return
		}
	}
	name := stats.OfEndpoint(stats.BudgetTokens, pl.cluster.name, b.target.addr)
	pl.plugin.vm.Stats.CountIf(name, uint64(b.target.tokens))
	b.target, b.tenant.charge = charge{}, charge{}
}

// undoGrant releases a grant that is not used.
func (ch *charging) undoGrant(addr string) {
	l := &ch.pl.lease
	l.charged(addr)
	l.giveBack(&l.budget.target)
	ch.pl.wait.noteUnserved()
	l.store.Release(l.now(), l.reservation.id)
}

// unserved reports whether no model can have worked on the request: the gateway has not reached its server, and
// so the request is unseen, or the server has refused it.
func (r *response) unserved(from host.GatewayStream) (unserved, unseen bool) {
	switch {
	case !r.reached:
		return true, true
	case r.outcome == answer.Refused || r.outcome == answer.Overloaded || r.outcome == answer.Failed:
		return !r.answer.HasOutput(), false
	case r.status < 400:
		return false, false
	}
	if details := from.Details(); details != "" && details != "via_upstream" {
		unseen = isUnreached(details)
		return unseen, unseen
	}
	switch r.status {
	case 503, 529:
		return true, false
	case 408, 499: // the client was slow or left
		return false, false
	}
	return r.status < 500, false
}

// restrict has what the target says of its limits in the headers of an answer shrink its budget for all gateways. What
// shrinks nothing is not reported: as long as a server has half of a limit left, its budget is not what runs out.
//
// Some servers say in the body of a 429 when to try again. It closes for the moment until that has come.
func (ch *charging) restrict(headers [][2]string) {
	pl := ch.pl
	c := &pl.lease.budget.target
	if c.addr == "" || !pl.response.reached {
		return
	}
	r, says, silent := ratelimit.Read(pl.response.status, headers, pl.plugin.vm.GW.Wall)
	if silent {
		pl.response.retry = make([]byte, 0, maxRetryBody)
	}
	if !says {
		return
	}
	limits := limitsOf(&pl.lease.reservation.plan, c.addr)
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
	pl.lease.store.Restrict(pl.lease.now(), c.scope, c.addr, r)
	pl.plugin.vm.Stats.CountIf(statname.With(stats.Restricted,
		"cluster", pl.cluster.name, "endpoint", c.addr, "reason", by), 1)
}

// maxRetryBody is how much of the body of a refusal is read.
const maxRetryBody = 4 << 10

// readRetry looks for the time to try again in the part of the body of a refusal that is passing.
func (ch *charging) readRetry(size int) {
	pl := ch.pl
	r, c := &pl.response, &pl.lease.budget.target
	r.retry = append(r.retry, pl.ResponseBody(0, min(size, cap(r.retry)-len(r.retry)))...)
	after, ok := ratelimit.RetryDelay(r.retry)
	if ok && c.addr != "" {
		pl.lease.store.Restrict(pl.lease.now(), c.scope, c.addr,
			budget.Restriction{Tokens: -1, Requests: -1, RetryAfter: after})
	}
	if ok || len(r.retry) == cap(r.retry) {
		r.retry = nil
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

// limitHeaders returns what a client is told of the budget that is likely to have room for its request first, as
// OpenAI's API tells it, and the exact time to wait, as OpenAI's clients read it.
func (ch *charging) limitHeaders(why lb.Reason, wait time.Duration) [][2]string {
	pl := ch.pl
	plan, grant := &pl.lease.reservation.plan, &pl.lease.reservation.grant
	if why == lb.ReasonTenantOverBudget {
		plan, grant = pl.lease.budget.tenant.plan, &pl.lease.budget.tenant.grant
	}
	limits := plan.Budget.Limits[grant.Index]
	headers := [][2]string{{"retry-after-ms", strconv.FormatInt(wait.Milliseconds(), 10)}}
	add := func(of string, limit, left float64) {
		if limit == 0 {
			return
		}
		headers = append(headers, [2]string{"x-ratelimit-limit-" + of, strconv.FormatInt(int64(limit), 10)})
		if left >= 0 { // else the store could not say
			headers = append(headers, [2]string{"x-ratelimit-remaining-" + of, strconv.FormatInt(int64(left), 10)})
		}
		headers = append(headers, [2]string{"x-ratelimit-reset-" + of, wait.String()})
	}
	add("tokens", limits.Tokens, grant.Left.Tokens)
	add("requests", limits.Requests, grant.Left.Requests)
	return headers
}
