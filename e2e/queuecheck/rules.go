package queuecheck

import (
	"cmp"
	"math"
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

// Bucket is what an endpoint may be granted in tokens: what a minute brings, and no more than that at once. A request
// of more tokens than it holds needs a full one, which is below zero then.
type Bucket struct{ PerMinute float64 }

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

// checker collects what a history breaks.
type checker struct {
	Rules
	events  History
	byID    map[uint64]*record
	records []*record // by entry
	grants  []*record // by grant
	caps    map[string][]capChange
	found   []Violation
}

// noCap is the cap of an endpoint that has none.
const noCap = math.MaxInt64

// capChange is the caps of an endpoint and since when they hold.
type capChange struct {
	from             time.Duration
	requests, tokens int64
}

func (c *checker) report(rule string, at time.Duration, id uint64, text string) {
	c.found = append(c.found, Violation{rule, at, id, text})
}

// overtaken reports that g was granted what w should have had.
func (c *checker) overtaken(rule string, w, g *record) {
	c.report(rule, g.ended, w.id, "waits since "+w.entered.String()+" but "+g.at+" went to "+g.name()+
		", waiting since "+g.entered.String())
}

// capsAt returns the highest caps of the endpoint that may have been in force at the time.
func (c *checker) capsAt(endpoint string, at time.Duration) (requests, tokens int64) {
	for i, change := range c.caps[endpoint] {
		ended := i+1 < len(c.caps[endpoint]) && c.caps[endpoint][i+1].from+c.Slack < at
		if change.from <= at+c.Slack && !ended {
			requests, tokens = max(requests, change.requests), max(tokens, change.tokens)
		}
	}
	return cmp.Or(requests, noCap), cmp.Or(tokens, noCap)
}
