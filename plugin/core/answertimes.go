package core

import (
	"time"

	"github.com/warmgate/warmgate/internal/order"
)

// answerTimes is how long the latest answers of a cluster took.
type answerTimes struct {
	times [64]time.Duration
	count int           // of all so far
	long  time.Duration // see typical
	known bool          // long is up to date
}

func (a *answerTimes) add(d time.Duration) {
	a.times[a.count%len(a.times)] = d
	a.count++
	a.known = false
}

// addIncomplete adds an answer that has not come within a time. It shows something only if most others have by then.
func (a *answerTimes) addIncomplete(d time.Duration) {
	if a.count > 0 && d > a.typical() {
		a.add(d)
	}
}

// typical returns the time within which nine of ten answers come, 0 before the first one.
func (a *answerTimes) typical() time.Duration {
	if !a.known {
		sorted := a.times
		n := min(a.count, len(sorted))
		order.Up(sorted[:n])
		a.long, a.known = sorted[max(0, (9*n-1)/10)], true
	}
	return a.long
}
