package placement

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/request"
	"github.com/warmgate/warmgate/plugin/response"
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
		if known := s.measure(time.Minute+3*time.Second, &got); got != c.want || known != (c.want.CountedTokens > 0) {
			t.Errorf("%s: %+v, %t, want %+v", c.name, got, known, c.want)
		}
	}
}

// The outcome has how long a token took: of a stream as its parts came, and not of one that came in a few.
func TestOutcomeHasPace(t *testing.T) {
	stream := response.State{Streamed: true, FirstAt: 10 * time.Second, LatestAt: 12 * time.Second, Outputs: 4}
	few := stream
	few.Outputs--
	for _, c := range []struct {
		name     string
		response response.State
		output   int64
		answers  int
		want     lb.Outcome
	}{
		{"a stream", stream, 101, 0, lb.Outcome{
			PerToken: 20 * time.Millisecond, OutputTokens: 101, Load: 2.5, Streamed: true,
		}},
		{"several answers side by side", stream, 404, 4, lb.Outcome{
			PerToken: 20 * time.Millisecond, OutputTokens: 101, Load: 2.5, Streamed: true,
		}},
		{"a stream in few parts", few, 101, 1, lb.Outcome{OutputTokens: 101, Streamed: true}},
		{"in one piece", response.State{}, 150, 1, lb.Outcome{
			PerToken: 20 * time.Millisecond, OutputTokens: 150, Load: 2.5,
		}},
		{"one token", stream, 1, 1, lb.Outcome{OutputTokens: 1, Streamed: true}},
		{"in one compressed piece", response.State{Encoded: true}, 150, 1, lb.Outcome{OutputTokens: 150}},
		{"less than a token each", stream, 3, 4, lb.Outcome{Streamed: true}},
	} {
		pl := &Placement{}
		pl.Response.State = c.response
		pl.Prompt.Work.Info.N = c.answers
		pl.Request = &request.Request{Body: request.Body{EndedAt: 10 * time.Second}}
		pl.Lease.plannedAt, pl.Lease.GrantedAt = 8*time.Second, 9*time.Second
		pl.Lease.Reservation.Grant = lb.Grant{Load: lb.Load{Requests: 5}}
		pl.Lease.Reservation.Plan.Candidates = []lb.Candidate{{Weight: 2}}
		var got lb.Outcome
		if measurePace(pl, 13*time.Second, c.output, &got); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
