package core

import (
	"time"

	"github.com/warmgate/warmgate/internal/state"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/inspect"
	"github.com/warmgate/warmgate/plugin/placement"
)

// showing is how a choice is shown to those who watch (lb_config.inspect).
type showing struct {
	of     *placement.Foresight
	in     *inspect.Inspector
	number uint64 // of the decision, 0 if it is not shown
}

// foresee finds out what the request costs at each candidate before its store chooses, if its choice is to be shown.
// What is in flight in Redis is known as of the latest look at that.
func (s *showing) foresee(now time.Duration) {
	ds, l := s.in.Decisions, &s.of.Of.Lease
	if !ds.Watched(now) || !ds.HasRoom() {
		return
	}
	plan := &l.Reservation.Plan
	if l.Redis != nil {
		s.of.Trial.Loads = s.in.Heard(plan)
		return
	}
	s.of.Trial = s.of.Of.Shared.Stores.Local.Try(now, plan)
}

// decided shows the choice, if somebody watches.
func (s *showing) decided(reason lb.Reason, region string) {
	pl := s.of.Of
	if !s.in.Decisions.Watched(s.in.Clock()) || pl.Config == nil || pl.Trial {
		return
	}
	s.number = s.in.Decisions.Add(func() state.Decision {
		d := s.of.Decision(inspect.MaxCandidates)
		d.Reason, d.Region = reason.String(), region
		return d
	})
	s.of.Forget()
}

// end shows what has come of the choice, if it was shown.
func (s *showing) end() {
	if s.number == 0 {
		return
	}
	pl := s.of.Of
	began := pl.Body.BeganAt
	s.in.Decisions.End(s.number, func(d *state.Decision) {
		d.Ended, d.Result, d.TookMS = true, pl.Judge.Result, (s.in.ReadClock() - began).Milliseconds()
		if ttft := pl.Response.TTFTSince(began); ttft > 0 {
			d.TTFTMS = max(1, ttft.Milliseconds())
		}
		if u := &pl.Prompt.Usage; pl.Prompt.Used {
			d.Used = &state.Usage{Prompt: int64(u.Prompt), Cached: int64(u.Cached), Output: int64(u.Output)}
		}
	})
}
