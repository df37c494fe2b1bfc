package queuecheck

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"
)

// Check returns the promises that the history breaks, by time.
func Check(h History, rules Rules) []Violation {
	c := &checker{Rules: rules, caps: map[string][]capChange{}}
	c.read(h)
	c.checkEnds()
	c.checkCaps()
	c.checkBuckets()
	c.checkOrder()
	c.checkIdle()
	slices.SortStableFunc(c.found, func(a, b Violation) int { return cmp.Compare(a.At, b.At) })
	return c.found
}

// read sorts the events by time and collects them by request. Requests are in the order in which they came.
func (c *checker) read(h History) {
	c.events = slices.Clone(h)
	slices.SortStableFunc(c.events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	c.byID = map[uint64]*record{}
	for i := range c.events {
		e := &c.events[i]
		switch {
		case e.Kind == Capped:
			change := capChange{e.At, cmp.Or(int64(e.Cap), noCap), cmp.Or(e.Tokens, noCap)}
			c.caps[e.Endpoint] = append(c.caps[e.Endpoint], change)
		case e.Kind == Entered:
			if c.byID[e.ID] != nil {
				c.report(RuleOnce, e.At, e.ID, "came twice")
				continue
			}
			r := &record{Request: e.Request, id: e.ID, entered: e.At, ended: never, end: Entered}
			r.soonest.entered, r.soonest.ended = cmp.Or(e.Earliest, e.At), never
			c.byID[e.ID], c.records = r, append(c.records, r)
		}
	}
	for i := range c.events {
		if e := &c.events[i]; e.Kind != Entered && e.Kind != Capped {
			c.follow(e)
		}
	}
}

// follow notes what became of a request.
func (c *checker) follow(e *Event) {
	r := c.byID[e.ID]
	if r == nil {
		c.report(RuleOnce, e.At, e.ID, e.Kind.String()+" but never came")
		return
	}
	switch e.Kind {
	case Granted, Refused, Left:
		if r.end != Entered {
			c.report(RuleOnce, e.At, e.ID, e.Kind.String()+" after it was "+r.end.String())
			return
		}
		r.ended, r.end, r.code = e.At, e.Kind, e.Code
		r.soonest.ended = cmp.Or(e.Earliest, e.At)
		if e.Kind == Granted {
			r.Cost = cmp.Or(e.Cost, r.Cost)
			r.at, r.warm = e.Endpoint, e.Warm || slices.Contains(r.Warm, e.Endpoint)
			r.stays = append(r.stays, stay{endpoint: e.Endpoint, from: e.At, to: never, tokens: e.Tokens})
			c.grants = append(c.grants, r)
		}
	case Moved, Released:
		if r.end != Granted {
			c.report(RuleOnce, e.At, e.ID, e.Kind.String()+" but never granted")
			return
		}
		r.stays[len(r.stays)-1].to = e.At
		if e.Kind == Moved {
			r.stays = append(r.stays, stay{e.Endpoint, e.At, never, true, e.Tokens})
		}
	}
}

// checkEnds checks that each request ends, in time, and by what it may.
func (c *checker) checkEnds() {
	last := time.Duration(0)
	if n := len(c.events); n > 0 {
		last = c.events[n-1].At
	}
	for _, r := range c.records {
		waited := min(r.ended, last) - r.entered
		switch {
		case r.end == Entered && !c.Open:
			c.report(RuleLost, r.entered, r.id, "waits at the end")
		case r.end == Granted && !r.mayUse(r.at):
			c.report(RuleAllowed, r.ended, r.id, "may not use "+r.at)
		case r.end == Refused && r.code == CodeEvicted:
			c.checkEviction(r)
		case r.end == Refused && r.code == CodeTimeout && waited+c.Slack < r.MaxWait:
			c.report(RuleMaxWait, r.ended, r.id, "was sent away after "+waited.String())
		}
		if r.MaxWait > 0 && waited > r.MaxWait+c.Slack+c.Late {
			c.report(RuleMaxWait, r.ended, r.id, "waited for "+waited.String())
		}
	}
}

// checkEviction checks that none younger of the same tenant waits on, no tenant of the same class with more, and that a
// class with fewer than its part of the places loses none to another one.
func (c *checker) checkEviction(victim *record) {
	most, all, ofClass, ofTenant := map[string]int{}, 0, map[string]int{}, 0 // the latter three with the victim
	for _, r := range c.records {
		if r.Class == victim.Class && r.Tenant == victim.Tenant && r.ended >= victim.ended && r.entered < victim.ended {
			most[r.Tenant]++ // the victim, too, and those that have left the queue at the same time
		}
		there := r.entered+c.Slack < victim.ended && r.ended > victim.ended+c.Slack
		if there || r == victim {
			all++
			ofClass[r.Class]++
			if r.Tenant == victim.Tenant {
				ofTenant++
			}
		}
		if !there || r.Class != victim.Class {
			continue
		}
		if r.Tenant == victim.Tenant && r.entered > victim.entered+c.Slack {
			c.report(RuleEviction, victim.ended, victim.id, "was evicted while "+r.name()+" waits")
		}
		if r.Tenant != victim.Tenant {
			most[r.Tenant]++
		}
	}
	if c.Slack > 0 {
		return
	}
	for tenant, n := range most {
		if n > most[victim.Tenant] {
			c.report(RuleEviction, victim.ended, victim.id, "was evicted while more of tenant "+tenant+" wait")
		}
	}
	byOwn := most[victim.Tenant] > 1 || 2*ofTenant > all // another tenant may have taken the place, of any class
	if n := ofClass[victim.Class]; !byOwn && float64(n) <= c.leastPart(victim.Class, ofClass)*float64(all)-0.5 {
		c.report(RuleEviction, victim.ended, victim.id, "was evicted while only "+strconv.Itoa(n)+" of its class wait")
	}
}

// leastPart returns the least part of the places of a full queue that a class has beside the others, whatever aging
// gives them: that is a fifth of what the parts are of.
func (c *checker) leastPart(class string, others map[string]int) float64 {
	sum, highest := 0.0, 0.0
	for other := range others {
		sum, highest = sum+c.Weights[other], max(highest, c.Weights[other])
	}
	part := c.Weights[class] / max(sum, math.SmallestNonzeroFloat64)
	if c.Strict {
		part = 0
		if c.Weights[class] == highest {
			part = 1
		}
	}
	return part / 1.2
}

// checkCaps checks at each grant that the endpoint has room.
func (c *checker) checkCaps() {
	holders := map[string][]stay{}
	for n, e := range c.events {
		if e.Kind != Granted && e.Kind != Moved {
			continue
		}
		r := c.byID[e.ID]
		if r == nil {
			continue
		}
		begun, ok := r.stayFrom(e.At, e.Endpoint)
		if !ok {
			continue
		}
		held := slices.DeleteFunc(holders[e.Endpoint], func(s stay) bool { return s.to <= e.At+c.Slack })
		holders[e.Endpoint] = append(held, begun)
		requests, tokens := c.inFlight(held, n, begun)
		most, mostTokens := c.capsAt(e.Endpoint, e.At)
		switch {
		case e.Kind != Granted:
		case requests >= most:
			c.report(RuleCap, e.At, e.ID, "is one more than "+strconv.FormatInt(most, 10)+" at "+e.Endpoint)
		case tokens >= mostTokens:
			c.report(RuleCap, e.At, e.ID, "finds "+strconv.FormatInt(tokens, 10)+" tokens at "+e.Endpoint+
				", which takes "+strconv.FormatInt(mostTokens, 10))
		}
	}
}

// inFlight returns what the grant that is event n finds in flight, of what is held at its endpoint. Of grants of the
// same time the smallest are the first: in any other order more tokens are found.
func (c *checker) inFlight(held []stay, n int, begun stay) (requests, tokens int64) {
	e := &c.events[n]
	for _, s := range held {
		late := s.from+c.Slack >= e.At
		if s.moved && late {
			continue // it may have come after the grant
		}
		requests++
		if !late || s.tokens <= e.Tokens {
			tokens += s.tokens
		}
	}
	for i := n + 1; i < len(c.events) && c.events[i].At == e.At && begun.to > e.At; i++ {
		if o := &c.events[i]; o.Kind == Granted && o.Endpoint == e.Endpoint && o.Tokens < e.Tokens {
			if s, ok := c.byID[o.ID].stayFrom(o.At, o.Endpoint); ok && s.to > o.At {
				tokens += o.Tokens
			}
		}
	}
	return requests, tokens
}
