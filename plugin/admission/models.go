package admission

import "strings"

// models answers how each target is, for people.
func (c *Call) models(string) {
	c.whenLoaded(c.api.ReadClock(), func(targets []target) {
		var list strings.Builder
		for i := range targets {
			if i > 0 {
				list.WriteByte(',')
			}
			list.WriteString(targets[i].describe())
		}
		var o jsonObject
		o.add("models", "["+list.String()+"]")
		c.reply(200, "ok", o.end())
	})
}

// describe returns the target as an object.
func (t *target) describe() string {
	var o jsonObject
	o.addString("id", t.Name)
	o.addString("state", t.state())
	o.addInt("in_flight", t.load.Requests)
	o.addInt("tokens_in_flight", t.load.Tokens)
	o.addNumber("weight", t.Limits.Weight)
	o.addInt("max_concurrent_requests", t.limit)
	o.addNumber("max_tokens_per_minute", t.Limits.Tokens)
	o.addNumber("max_requests_per_minute", t.Limits.Requests)
	o.addLeft("tokens_left", t.level.Tokens)
	o.addLeft("requests_left", t.level.Requests)
	o.addInt("deficit", int64(t.level.Deficit))
	o.addInt("closed_for_ms", t.level.Closed.Milliseconds())
	return o.end()
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

// addLeft adds what is left in a bucket, null where there is none.
func (o *jsonObject) addLeft(name string, n float64) {
	if n < 0 {
		o.add(name, "null")
		return
	}
	o.addInt(name, int64(n))
}
