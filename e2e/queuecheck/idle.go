package queuecheck

import (
	"cmp"
	"slices"
	"time"
)

// step is a change of what is in flight at an endpoint.
type step struct {
	at               time.Duration
	requests, tokens int64
}

// checkIdle checks that nobody waits beside an endpoint that is open for longer than Idle.
func (c *checker) checkIdle() {
	if c.Idle <= 0 {
		return
	}
	steps := map[string][]step{}
	for _, r := range c.records {
		for _, e := range r.Endpoints {
			steps[e] = append(steps[e], step{at: r.entered})
		}
		for _, s := range r.stays {
			steps[s.endpoint] = append(steps[s.endpoint], step{s.from, 1, s.tokens})
			if s.to != never {
				steps[s.endpoint] = append(steps[s.endpoint], step{s.to, -1, -s.tokens})
			}
		}
	}
	open := map[string][]stay{}
	for e, list := range steps {
		open[e] = c.openTimes(e, list)
	}
	for _, r := range c.records {
		c.checkIdleBeside(r, open)
	}
}

// openTimes returns when the endpoint was open for longer than Idle.
func (c *checker) openTimes(endpoint string, steps []step) []stay {
	for _, change := range c.caps[endpoint] {
		steps = append(steps, step{at: change.from})
	}
	slices.SortFunc(steps, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	var out []stay
	requests, tokens, since := int64(0), int64(0), time.Duration(never)
	for i, s := range steps {
		requests, tokens = requests+s.requests, tokens+s.tokens
		if i+1 < len(steps) && steps[i+1].at == s.at {
			continue
		}
		most, mostTokens := c.capsAt(endpoint, s.at)
		open := requests < most && tokens < mostTokens
		switch {
		case open && since == never:
			since = s.at
		case !open && since != never:
			if s.at-since > c.Idle {
				out = append(out, stay{endpoint: endpoint, from: since, to: s.at})
			}
			since = never
		}
	}
	if since != never {
		out = append(out, stay{endpoint: endpoint, from: since, to: never})
	}
	return out
}

// checkIdleBeside checks for one request that no endpoint which it may use was open for longer than Idle while it
// waited, and would not rather wait for one that has its prompt.
func (c *checker) checkIdleBeside(r *record, open map[string][]stay) {
	until := r.ended
	if until == never {
		until = c.events[len(c.events)-1].At
	}
	for _, e := range r.Endpoints {
		from := r.entered
		if len(r.Warm) > 0 && !slices.Contains(r.Warm, e) {
			from += r.Patience
		}
		for _, s := range open[e] {
			if beside := min(until, s.to) - max(from, s.from); beside > c.Idle {
				c.report(RuleIdle, max(from, s.from), r.id, "waits beside "+e+", open for "+beside.String())
				return
			}
		}
	}
}
