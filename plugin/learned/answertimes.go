package learned

import (
	"time"

	"github.com/warmgate/warmgate/internal/order"
)

// AnswerTimes is how long the latest answers of a cluster took.
type AnswerTimes struct {
	times [64]time.Duration
	count int           // of all so far
	long  time.Duration // see typical
	known bool          // long is up to date
}

// Add adds an answer that has come.
func (a *AnswerTimes) Add(d time.Duration) {
	a.times[a.count%len(a.times)] = d
	a.count++
	a.known = false
}

// AddIncomplete adds an answer that has not come within a time. It shows something only if most others have by then.
func (a *AnswerTimes) AddIncomplete(d time.Duration) {
	if a.count > 0 && d > a.Typical() {
		a.Add(d)
	}
}

// Typical returns the time within which nine of ten answers come, 0 before the first one.
func (a *AnswerTimes) Typical() time.Duration {
	if !a.known {
		sorted := a.times
		n := min(a.count, len(sorted))
		order.Up(sorted[:n])
		a.long, a.known = sorted[max(0, (9*n-1)/10)], true
	}
	return a.long
}
