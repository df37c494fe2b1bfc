package queuecheck

import "strconv"

// checkOrder compares each grant with the requests that could have had the endpoint instead.
func (c *checker) checkOrder() {
	tenants := fairness{until: -1}
	var waiting []*record
	var shares span
	var aging ages
	next := 0
	for _, g := range c.grants {
		for ; next < len(c.records) && c.records[next].entered <= g.ended; next++ {
			if r := c.records[next]; r.entered > tenants.until {
				tenants.reset()
			}
			tenants.until = max(tenants.until, c.records[next].ended)
			waiting = append(waiting, c.records[next])
		}
		kept := waiting[:0]
		for _, w := range waiting {
			if w.ended > g.ended || w == g {
				kept = append(kept, w)
			}
		}
		waiting = kept
		rivals := c.rivals(g, waiting)
		c.checkGrant(g, rivals)
		c.checkAging(&aging, g, rivals, waiting)
		c.note(&shares, g, rivals)
		if c.Tenants > 0 {
			tenants.admit(waiting)
			c.checkTenants(&tenants, g, rivals, len(waiting) > 1)
		}
	}
	if n := len(c.grants); n > 0 {
		c.closeSpan(&shares, c.grants[n-1].ended)
	}
}

// rivals returns the requests that wait while g is granted its endpoint, and could have had it.
func (c *checker) rivals(g *record, waiting []*record) []*record {
	var out []*record
	for _, w := range waiting {
		if w != g && w.entered+c.Slack < g.ended && w.soonest.ended > g.ended+c.Slack && w.mayUse(g.at) &&
			!w.patient(g.at, g.ended, c.Slack) && c.takesLess(w, g) {
			out = append(out, w)
		}
	}
	return out
}

// checkGrant checks g's turn against the rivals of its tenant, by time of entry.
func (c *checker) checkGrant(g *record, rivals []*record) {
	passed := 0
	for _, w := range rivals {
		earlier := w.entered+c.Slack < g.soonest.entered
		switch {
		case w.Class != g.Class || w.Tenant != g.Tenant || !earlier:
		case g.warm || w.warmElsewhere(g.at):
			passed++
			if w.passed++; w.passed > 3*w.Skip {
				c.report(RuleSkip, g.ended, w.id, "was passed by "+strconv.Itoa(w.passed))
			}
		default:
			c.overtaken(RuleOrder, w, g)
		}
	}
	if passed > g.Skip {
		c.report(RuleSkip, g.ended, g.id, "has passed "+strconv.Itoa(passed))
	}
}
