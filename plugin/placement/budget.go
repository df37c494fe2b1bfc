package placement

import (
	"strconv"

	"github.com/warmgate/warmgate/lb"
)

// A request under token_budget is charged for its estimated tokens in the step that counts it. This file is what the
// charge is, and how it is corrected by what was used.

// budgetUse is what a request was charged, and to whom.
type budgetUse struct {
	Target charge
	tenant tenantLease
	known  bool // the answer has said what was used
}

// tenantLease is where a request is counted at its tenant.
type tenantLease struct {
	pending
	charge charge
	plan   *lb.Plan
}

// charge is what a request was charged to one budget. The zero value: nothing.
type charge struct {
	id          lb.LeaseID
	scope, Addr string
	Tokens      int64
}

// AppendText appends to a line of the access log how many tokens the target was charged, if it has a budget.
func (b *budgetUse) AppendText(line []byte) []byte {
	if b.Target.Addr == "" {
		return line
	}
	return strconv.AppendInt(append(line, " charged="...), b.Target.Tokens, 10)
}

// settle corrects a charge to the tokens that were used.
func (l *lease) settle(c *charge, used int64) {
	if delta := used - c.Tokens; delta != 0 && c.Addr != "" {
		c.Tokens = used
		l.store.Settle(l.Now(), c.id, c.Addr, delta, 0)
	}
}

// giveBack gives back a charge with its place among the requests a minute: the target has never seen the request.
func (l *lease) giveBack(c *charge) {
	if c.Addr != "" {
		l.store.Settle(l.Now(), c.id, c.Addr, -c.Tokens, -1)
	}
	*c = charge{}
}

// charged notes that the target was charged with the grant.
func (l *lease) charged(addr string) {
	if r := &l.Reservation; r.Plan.HasBudget() {
		l.Budget.Target = charge{r.id, r.Plan.Scope, addr, r.Plan.Budget.Tokens}
	}
}

// moveCharge charges another target than the one before, which serves the request in its place.
func (l *lease) moveCharge(addr string) {
	c := l.Budget.Target
	if c.Addr == "" {
		return
	}
	l.giveBack(&l.Budget.Target)
	l.store.Settle(l.Now(), c.id, addr, c.Tokens, 1)
	l.Budget.Target, l.Budget.Target.Addr = c, addr
}

// estimatedAgain corrects the charges of a request that was estimated before its body had come.
func (l *lease) estimatedAgain(tokens, ofTenant int64) {
	l.settle(&l.Budget.Target, tokens)
	l.settle(&l.Budget.tenant.charge, ofTenant)
}

// used corrects what the target was charged by the usage in an answer.
func (l *lease) used(tokens int64) {
	if l.Budget.Target.Addr != "" {
		l.Budget.known = true
		l.settle(&l.Budget.Target, tokens)
	}
}

// dropCharges ends the charges of a request on which no model can have worked. unseen: nor has its server got it; else
// it counts as one request, there and for its tenant.
func (l *lease) dropCharges(unseen bool) {
	for _, c := range [2]*charge{&l.Budget.Target, &l.Budget.tenant.charge} {
		if !unseen {
			l.settle(c, 0)
			*c = charge{}
		}
		l.giveBack(c)
	}
}

// endTenant releases the request's lease at its tenant. What it was charged is given back unless it is settled.
func (l *lease) endTenant() {
	t := &l.Budget.tenant
	if t.id == 0 {
		return
	}
	id := t.id
	t.id = 0
	l.giveBack(&t.charge)
	l.store.Release(l.Now(), id)
}
