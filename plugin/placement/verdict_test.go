package placement

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/request"
)

// The outcome has the TTFT and the duration of an answer in parts from the chosen endpoint.
func TestOutcomeHasTimes(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(pl *Placement)
		want   lb.Outcome
	}{
		{"in parts", func(*Placement) {}, lb.Outcome{CountedTokens: 90, TTFT: time.Second, Duration: 3 * time.Second}},
		{"in one piece", func(pl *Placement) { pl.Response.TTFT = 0 }, lb.Outcome{CountedTokens: 90}},
		{"retried", func(pl *Placement) { pl.Lease.Addr = "b" }, lb.Outcome{}},
		{"without a prompt", func(pl *Placement) { pl.Prompt.Chain = nil }, lb.Outcome{}},
		{"in shadow mode", func(pl *Placement) { pl.Config.Shadow = true }, lb.Outcome{}},
	} {
		pl := &Placement{}
		pl.Config, pl.Prompt.Chain = &config.Config{}, &request.Chain{Planned: time.Minute}
		pl.Lease.Addr, pl.Lease.Chosen, pl.Response.TTFT = "a", "a", time.Second
		pl.Lease.Reservation.Plan = lb.Plan{Tokens: 90}
		pl.Lease.Reservation.Grant = lb.Grant{Load: lb.Load{Requests: 5}}
		c.change(pl)
		var got lb.Outcome
		s := Serving{Of: pl}
		if s.measure(time.Minute+3*time.Second, &got); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
