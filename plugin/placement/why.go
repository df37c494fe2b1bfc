package placement

import (
	"strconv"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/measured"
)

// This file is how it is told why an endpoint was chosen.

// explain notes which rule has decided for the chosen endpoint, and which one was next best, as far as that is known.
func (l *lease) explain(m *measured.Request) {
	w := l.why()
	m.Target = l.InTime()
	if m.Rule = w.Rule.String(); w.Rule == lb.Unknown {
		return
	}
	if cs := l.Reservation.Plan.Candidates; w.RunnerUp >= 0 && w.RunnerUp < len(cs) {
		m.RunnerUp, m.LostBy = cs[w.RunnerUp].Addr, w.LostBy
	}
}

// why returns why the store has chosen the endpoint.
func (l *lease) why() lb.Why {
	r := &l.Reservation
	switch {
	case l.Chosen == "" || r.Grant.Index >= len(r.Plan.Candidates):
		return lb.Why{}
	case r.Grant.Queued:
		return lb.Why{Rule: lb.ByTurn, RunnerUp: lb.Full}
	case r.Plan.HasBudget():
		return lb.Why{Rule: lb.ByBudget, RunnerUp: lb.Full}
	}
	return r.Grant.Why
}

// InTime returns whether the answer is expected as soon as it is wanted, "" if no target has had a part in the choice.
// Late is one that finds more requests at the endpoint than are in time there, or than its engine runs at once.
func (l *lease) InTime() string {
	r := &l.Reservation
	switch {
	case l.Chosen == "" || r.Plan.Target == (lb.Target{}) || r.Grant.Index >= len(r.Plan.Candidates):
		return ""
	case r.Plan.Candidates[r.Grant.Index].Late(l.Load):
		return "late"
	}
	return "in_time"
}

// RunnerUp returns what debug headers show of the endpoint that was next best: its address, and by how much the request
// would have cost more there. It returns "" if there is none, or if none is known; and which rule has decided.
func (l *lease) RunnerUp() (next, rule string) {
	var m measured.Request
	if l.explain(&m); m.RunnerUp != "" {
		next = m.RunnerUp + ";+" + strconv.FormatFloat(m.LostBy, 'f', 2, 64)
	}
	return next, m.Rule
}
