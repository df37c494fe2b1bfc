package process

import (
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
)

// TickPeriod is how often a VM does what is due.
const TickPeriod = 100 * time.Millisecond

// LeaderTerms is how many times a leader may miss.
const LeaderTerms = 3

// Leadership is a task that one VM of the process does for all, for a term at a time.
type Leadership struct {
	KV  lb.KV
	ID  uint64 // of this VM
	Key string

	Slack time.Duration // how much longer than the main thread's VM a worker's VM waits before it takes over
}

// Resign ends the term, for the next VM that takes over.
func (l *Leadership) Resign() {
	if val, cas, err := l.KV.Get(l.Key); err == nil && len(val) == 16 && wire.Uint64(val, 0) == l.ID {
		_ = l.KV.Set(l.Key, make([]byte, 16), cas) // should it fail, the term ends
	}
}

// Lead takes or renews the leadership. every is how often that is done; serves: this VM is a worker's. taken reports
// that another VM, or none, had it before.
func (l *Leadership) Lead(now, every time.Duration, serves bool) (leads, taken bool) {
	val, cas, err := l.KV.Get(l.Key)
	if err != nil {
		return false, false
	}
	var leader uint64
	var until time.Duration
	if len(val) == 16 { // leader id u64, until i64
		leader, until = wire.Uint64(val, 0), wire.Duration(val, 8)
	}
	if leader != l.ID {
		wait := time.Duration(0)
		if serves {
			wait = l.Slack
		}
		if now < until+wait {
			return false, false
		}
		taken = true
	}
	next := wire.Writer(nil).Uint64(l.ID).Duration(now + LeaderTerms*max(every, TickPeriod))
	return l.KV.Set(l.Key, next, cas) == nil, taken
}
