package core

import (
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
)

// leaderTerms is how many times a leader may miss.
const leaderTerms = 3

// leadership is a task that one VM of the process does for all, for a term at a time.
type leadership struct {
	kv  lb.KV
	id  uint64 // of this VM
	key string

	slack time.Duration // how much longer than the main thread's VM a worker's VM waits before it takes over
}

// resign ends the term, for the next VM that takes over.
func (l *leadership) resign() {
	if val, cas, err := l.kv.Get(l.key); err == nil && len(val) == 16 && wire.Uint64(val, 0) == l.id {
		_ = l.kv.Set(l.key, make([]byte, 16), cas) // should it fail, the term ends
	}
}

// lead takes or renews the leadership. every is how often that is done; serves: this VM is a worker's. taken reports
// that another VM, or none, had it before.
func (l *leadership) lead(now, every time.Duration, serves bool) (leads, taken bool) {
	val, cas, err := l.kv.Get(l.key)
	if err != nil {
		return false, false
	}
	var leader uint64
	var until time.Duration
	if len(val) == 16 { // leader id u64, until i64
		leader, until = wire.Uint64(val, 0), wire.Duration(val, 8)
	}
	if leader != l.id {
		wait := time.Duration(0)
		if serves {
			wait = l.slack
		}
		if now < until+wait {
			return false, false
		}
		taken = true
	}
	next := wire.Writer(nil).Uint64(l.id).Duration(now + leaderTerms*max(every, tickPeriod))
	return l.kv.Set(l.key, next, cas) == nil, taken
}
