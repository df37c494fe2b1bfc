package core

import "strings"

// models answers how each target is, for people.
func (c *apiCall) models(string) {
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
	state := "open"
	switch {
	case !t.candidate:
		state = "unhealthy"
	case t.limit > 0 && t.load.Requests >= t.limit:
		state = "full"
	}
	o.addString("state", state)
	o.addInt("in_flight", t.load.Requests)
	o.addInt("tokens_in_flight", t.load.Tokens)
	o.addNumber("weight", t.Limits.Weight)
	o.addInt("max_concurrent_requests", t.limit)
	o.addNumber("max_tokens_per_minute", t.Limits.Tokens)
	o.addNumber("max_requests_per_minute", t.Limits.Requests)
	return o.end()
}
