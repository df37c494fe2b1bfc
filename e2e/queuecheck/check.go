package queuecheck

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"
)

// Rules are what the queue promises beside what its requests say.
type Rules struct {
	Weights map[string]float64 // of the classes; the higher goes first where Strict
	Strict  bool               // a higher class goes first; else classes share by weight
	// Slack is the time by which the events of a history may be late: events that are not farther apart may have
	// happened in any order. 0: the times are exact, and only events of the same time are in no order.
	Slack time.Duration
	// Share is how far the share of a class in what is served may be from that of its weight, as a part of the latter.
	// 0: shares are not checked. They are where several classes wait for at least MinGrants grants.
	Share     float64
	MinGrants int
	// Tenants is how much more one tenant of a class may have been served than another that waits. 0: not checked.
	Tenants float64
	// Idle is for how long an endpoint may be open while a request waits that may use it. 0: not checked.
	Idle time.Duration
	// Late is how much later than at its time a wait may be ended.
	Late time.Duration
	// Buckets are those of endpoints that have some.
	Buckets map[string]Bucket
	// Open: the history ends while requests wait.
	Open bool
}

// Violation is a promise that was not kept.
type Violation struct {
	Rule string
	At   time.Duration
	ID   uint64 // the request that suffers, or breaks the rule alone; 0 for a class
	Text string
}

// String returns the violation in one line.
func (v Violation) String() string {
	return v.At.String() + " " + v.Rule + ": " + strconv.FormatUint(v.ID, 10) + " " + v.Text
}

// The names of the rules.
const (
	RuleOnce     = "once"     // a request ends once: granted, refused or left
	RuleLost     = "lost"     // and it does end
	RuleAllowed  = "allowed"  // it is granted an endpoint that it may use
	RuleCap      = "cap"      // that is below its caps
	RuleBucket   = "bucket"   // nor is more than its bucket has
	RuleOrder    = "order"    // first come, first served within a tenant of a class
	RuleSkip     = "skip"     // a request with a warm prefix passes at most its Skip others
	RuleAging    = "aging"    // classes of which some have waited for their aging have a part of what is granted
	RuleStrict   = "strict"   // a higher class goes first, but for that part
	RuleTenants  = "tenants"  // the tenant goes next that was served least
	RuleShare    = "share"    // classes are served by their weights
	RuleIdle     = "idle"     // no open endpoint beside a request that waits for it
	RuleMaxWait  = "max wait" // nobody waits for longer, or is sent away earlier
	RuleEviction = "eviction" // the youngest of the tenant with the most makes room, and no class that has few
)

type checker struct {
	Rules
	events  History
	byID    map[uint64]*record
	records []*record // by entry
	grants  []*record // by grant
	caps    map[string][]capChange
	found   []Violation
}

// capChange is the caps of an endpoint and since when they hold; 0 for none.
type capChange struct {
	from             time.Duration
	requests, tokens int64
}

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

func (c *checker) report(rule string, at time.Duration, id uint64, text string) {
	c.found = append(c.found, Violation{rule, at, id, text})
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
		case most > 0 && requests >= most:
			c.report(RuleCap, e.At, e.ID, "is one more than "+strconv.FormatInt(most, 10)+" at "+e.Endpoint)
		case mostTokens > 0 && tokens >= mostTokens:
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

// capsAt returns the highest caps of the endpoint that may have been in force at the time, 0 for none.
func (c *checker) capsAt(endpoint string, at time.Duration) (requests, tokens int64) {
	first := true
	for i, change := range c.caps[endpoint] {
		ended := i+1 < len(c.caps[endpoint]) && c.caps[endpoint][i+1].from+c.Slack < at
		if change.from > at+c.Slack || ended {
			continue
		}
		if first {
			requests, tokens, first = change.requests, change.tokens, false
			continue
		}
		requests, tokens = looser(requests, change.requests), looser(tokens, change.tokens)
	}
	return requests, tokens
}

// looser returns the higher one of two caps, where 0 is none.
func looser(a, b int64) int64 {
	if a == 0 || b == 0 {
		return 0
	}
	return max(a, b)
}
