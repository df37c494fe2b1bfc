package budget

import "time"

// Look returns the state as it is at now, for who only looks at it.
func (s State) Look(now float64) State {
	if s.IsUnused(now) {
		return State{At: now}
	}
	s.Advance(now)
	return s
}

// Level is how full a target's buckets are.
type Level struct {
	Left
	Deficit float64       // tokens that are due to the target; negative if it was given more than its share
	Closed  time.Duration // for how long it takes nothing
	Over    bool          // its buckets have nothing left for the smallest request
}

// Level returns what a state is at its own time, for a target with these limits.
func (s State) Level(l Limits) Level {
	s.setRates(max(l.Tokens, 0), max(l.Requests, 0))
	v := Level{Left: s.Left(), Deficit: s.Deficit, Closed: time.Duration(s.Closed) * time.Millisecond}
	s.Closed = 0
	v.Over = s.Wait(1, 0) > 0
	return v
}
