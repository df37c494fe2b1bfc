package queuecheck

import (
	"strconv"
	"time"
)

// rounding is by how many tokens a sum of many grants may be off.
const rounding = 1e-3

// level is how full a bucket is at a time.
type level struct {
	at     time.Duration
	tokens float64
}

// checkBuckets checks that no endpoint is granted more tokens than its bucket has. So in any time it is granted what
// that time brings and a bucket at most, beside one request that is larger.
func (c *checker) checkBuckets() {
	levels := map[string]level{}
	for i := range c.events {
		e := &c.events[i]
		b, limited := c.Buckets[e.Endpoint]
		if e.Kind != Granted || !limited {
			continue
		}
		l, known := levels[e.Endpoint]
		if !known {
			l = level{e.At, b.PerMinute}
		}
		l.tokens = min(b.PerMinute, l.tokens+b.PerMinute*(e.At-l.at).Minutes())
		spare := rounding + b.PerMinute*c.Slack.Minutes()
		if need := min(float64(e.Tokens), b.PerMinute); need > l.tokens+spare {
			c.report(RuleBucket, e.At, e.ID, "takes "+strconv.FormatInt(e.Tokens, 10)+" tokens of "+e.Endpoint+
				", which has "+strconv.FormatFloat(l.tokens, 'f', 1, 64))
		}
		levels[e.Endpoint] = level{e.At, l.tokens - float64(e.Tokens)}
	}
}

// takesLess reports whether the bucket of the endpoint that was granted to g would have been enough for w as well: of
// those that wait for a bucket, a large one may be passed by smaller ones.
func (c *checker) takesLess(w, g *record) bool {
	_, limited := c.Buckets[g.at]
	return !limited || w.cost() <= g.cost()
}
