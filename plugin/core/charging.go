package core

import (
	"cmp"
	"errors"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/ratelimit"
	"github.com/warmgate/warmgate/plugin/stats"
)

// A charge is corrected by what the answer says was used, and by what the target says is left of its own limits.
//
// Where tenants have budgets (lb_config.tenants), a request is counted twice: at its tenant first, in a scope of its
// own, and then at a target. So who is over a budget is refused before anyone else could notice.

// charging is what a request is charged at its target and its tenant, and what it is given back.
type charging struct{ pl *choice }

// endCharges ends the charges of a request that is over. Without usage the estimate stays, unless no model can have
// worked on the request.
func (ch *charging) endCharges() {
	pl := ch.pl
	b := &pl.lease.budget
	if b.target.addr == "" {
		return
	}
	if !b.known {
		if unserved, unseen := pl.response.unserved(pl.Gateway); unserved {
			pl.lease.dropCharges(unseen)
			return
		}
	}
	name := stats.OfEndpoint(stats.BudgetTokens, pl.Cluster.Name, b.target.addr)
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
		"cluster", pl.Cluster.Name, "endpoint", c.addr, "reason", by), 1)
}

// maxRetryBody is how much of the body of a refusal is read.
const maxRetryBody = 4 << 10

// readRetry looks for the time to try again in the part of the body of a refusal that is passing.
func (ch *charging) readRetry(size int) {
	pl := ch.pl
	r, c := &pl.response, &pl.lease.budget.target
	r.retry = append(r.retry, pl.Gateway.ResponseBody(0, min(size, cap(r.retry)-len(r.retry)))...)
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

// reserveTenant counts the request at its tenant, if tenants have budgets, and then at a target.
func (ch *charging) reserveTenant(now time.Duration) host.Action {
	pl := ch.pl
	b := pl.Config.Budget()
	if b == nil || !b.Tenants.Limited() || pl.Config.Shadow || !pl.Computes() {
		return pl.submit(now)
	}
	v, l, t := pl.plugin.vm, &pl.lease, &pl.lease.budget.tenant
	pl.Traits.Read(pl.Gateway)
	digest := tenantDigest(pl.Traits.Value(b.Tenants.Header))
	t.plan = b.Tenants.Plan(lb.TenantsScope+pl.Scope, digest, l.reservation.plan.Budget.Tokens)
	t.id = v.stores.NextID()
	if pl.ask(now, &t.claim, t.plan, "the answer to a tenant's reservation", ch.finishTenant) {
		return ch.finishTenant()
	}
	v.ticks.wakeAt(now, now+pl.Config.ReserveTimeout)
	return host.Stop
}

// tenantDigest returns what stands for a tenant in stores.
func tenantDigest(name string) uint64 { return xxhash.Sum64String("tenant " + name) }

// finishTenant goes on with a request whose tenant has room for it. A store that cannot say does not stop it.
func (ch *charging) finishTenant() host.Action {
	pl := ch.pl
	t := &pl.lease.budget.tenant
	if t.err != nil {
		t.id = 0 // there is nothing to release
	}
	switch {
	case t.err == nil:
		t.charge = charge{t.id, t.plan.Scope, t.plan.Candidates[0].Addr, t.plan.Budget.Tokens}
	case errors.Is(t.err, lb.ErrOverBudget), errors.Is(t.err, lb.ErrFull):
		pl.closeLease()
		return pl.refusal.refuse(lb.ReasonTenantOverBudget, cmp.Or(t.grant.Expected, host.MinWait))
	}
	return pl.submit(pl.lease.now())
}
