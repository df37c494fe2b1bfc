package learned

import (
	"time"

	"github.com/warmgate/warmgate/plugin/process"
)

// Announcements tells for the APIs of a cluster that are not known whether the first event of an answer is output, or
// only announces it: by whether the second one comes late.
type Announcements int8

const (
	// lateTimes is how many times as long as the first event the second one takes if it is late.
	lateTimes = 4
	// mostAnnouncements is how many answers more than others have to show the contrary at most.
	mostAnnouncements = 4
)

// First reports whether the first event of an answer only announces it.
func (a Announcements) First() bool { return a > 0 }

// Second takes over after which times the first and the second event have come.
func (a *Announcements) Second(took, later time.Duration) {
	if later > lateTimes*max(took, process.TickPeriod) {
		*a = min(*a+1, mostAnnouncements)
		return
	}
	*a = max(*a-1, -mostAnnouncements)
}
