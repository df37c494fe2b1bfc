package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// The outcome says how long the answer took to begin and to end, of an answer in parts that the chosen endpoint gave.
func TestOutcomeHasTimes(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(s *stream)
		want   lb.Outcome
	}{
		{"in parts", func(*stream) {}, lb.Outcome{Work: 90, Inflight: 4, First: time.Second, Took: 3 * time.Second}},
		{"in one piece", func(s *stream) { s.streams = false }, lb.Outcome{Work: 90, Inflight: 4}},
		{"retried", func(s *stream) { s.addr = "b" }, lb.Outcome{}},
		{"without a prompt", func(s *stream) { s.prompted = nil }, lb.Outcome{}},
	} {
		d := startFake(t, 1, 1, fmt.Sprintf(prefixConfig, 1_000_000))
		s := &stream{
			plugin: d.workers[0].current, cfg: d.workers[0].current.set.Match("", "", ""),
			prompted: &prompted{planned: time.Minute}, addr: "a", chosen: "a", streams: true, first: time.Second,
		}
		s.ask.plan = lb.Plan{Tokens: 90}
		s.ask.grant = lb.Grant{Load: lb.Load{Requests: 5}}
		c.change(s)
		var got lb.Outcome
		if s.time(time.Minute+3*time.Second, &got); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
