package admission

import (
	"strconv"

	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/plugin/apicall"
)

// models answers how each target is, for people.
func (c *call) models(string) {
	c.whenLoaded(c.api.ReadClock(), func(targets []target) {
		var o apicall.Object
		o.Add("models", apicall.List(len(targets), func(i int) string { return targets[i].describe() }))
		c.Reply(200, "ok", o.End())
	})
}

// describe returns the target as an object.
func (t *target) describe() string {
	var o apicall.Object
	o.String("id", t.Name)
	o.String("state", t.state())
	o.Int("in_flight", t.load.Requests)
	o.Int("tokens_in_flight", t.load.Tokens)
	o.Rounded("weight", t.Limits.Weight)
	o.Int("max_concurrent_requests", t.limit)
	o.Rounded("max_tokens_per_minute", t.Limits.Tokens)
	o.Rounded("max_requests_per_minute", t.Limits.Requests)
	o.Add("limits_set", t.limitsSet())
	o.Add("tokens_left", left(t.level.Tokens))
	o.Add("requests_left", left(t.level.Requests))
	o.Int("deficit", int64(t.level.Deficit))
	o.Int("closed_for_ms", t.level.Closed.Milliseconds())
	return o.End()
}

// limitsSet lists those of the limits that were set at run time.
func (t *target) limitsSet() string {
	var names []string
	for i, k := range policy.LimitKeys() {
		if t.set[i] {
			names = append(names, apicall.Quote(k.Name))
		}
	}
	return apicall.List(len(names), func(i int) string { return names[i] })
}

// state returns what keeps tasks from the target, the longest lasting first.
func (t *target) state() string {
	switch {
	case !t.candidate:
		return "unhealthy"
	case t.level.Closed > 0:
		return "closed"
	case t.level.Over:
		return "over_budget"
	case t.limit > 0 && t.load.Requests >= t.limit:
		return "full"
	}
	return "open"
}

// left returns what is left in a bucket, null where there is none.
func left(n float64) string {
	if n < 0 {
		return "null"
	}
	return strconv.FormatInt(int64(n), 10)
}
