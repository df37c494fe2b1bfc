package core

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/learned"
)

// shows returns what the answer, which has ended, shows of the work behind it.
func (r *reading) shows() learned.Shown {
	a := r.answer
	switch {
	case a == nil && (r.text && r.parts <= 1 || r.bytes == 0): // in several parts it may be what a model writes
		return learned.ShowsNothing
	case a == nil || a.IsOther():
		return learned.ShowsUnknown
	}
	switch u, _ := a.Usage(r.complete); {
	case u.Prompt+u.Output > 0 || a.Streams() && a.HasOutput():
		return learned.ShowsWork
	case a.Streams() || a.HasOutput():
		return learned.ShowsOutput
	case r.unread:
		return learned.ShowsUnknown
	}
	return learned.ShowsNothing
}

// learnCall has the answer show what calls of its kind are, or how long those that compute take.
func (j *judging) learnCall(now time.Duration, verdict lb.Verdict) {
	pl := j.pl
	r, calls := &pl.response, &pl.cluster.calls
	if verdict != lb.Success || r.status >= 300 || r.asked == 0 || r.answered == 0 {
		return
	}
	shows := learned.ShowsUnknown
	if !pl.pattern.IsListed() {
		shows = r.shows()
	}
	calls.Learn(now, pl.pattern, shows, max(0, r.answered-r.asked), pl.what == prompt.Computes)
}
