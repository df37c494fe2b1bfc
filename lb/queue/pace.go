package queue

import "time"

const (
	// paceWindow is how many grants the mean interval is of, and MinPace how many it takes to know one.
	paceWindow, MinPace = 32, 8
	// maxSlowdown is by how many times the mean one interval may count, and minPause how many ms it may count anyway.
	maxSlowdown, minPause = 8, 100
	// paceMemory is how long the pace is kept when nobody waits any more.
	paceMemory = time.Minute
)

// pace is how fast waiting requests are granted: the rate at which capacity becomes free, while somebody waits for it.
type pace struct {
	last     uint32  // when one was granted last, or when the first one began to wait after a time without, in ms
	interval float64 // mean interval between two grants, in ms
	count    uint8   // how many intervals that is of, paceWindow at most
}

// begin is called when a request begins to wait and no other does.
func (p *pace) begin(now uint32) {
	if now-p.last > millis(paceMemory) {
		p.count = 0
	}
	p.last = now
}

// granted is called for each grant.
func (p *pace) granted(now uint32) {
	interval := float64(max(0, int32(now-p.last)))
	if p.count >= MinPace { // one pause of all servers does not show how fast they are
		interval = min(interval, max(maxSlowdown*p.interval, minPause))
	}
	p.last, p.count = now, min(p.count+1, paceWindow)
	p.interval += (interval - p.interval) / float64(p.count)
}

// mean returns the mean interval between two grants, 0 if it is not known.
func (p *pace) mean() time.Duration {
	if p.count < MinPace {
		return 0
	}
	return time.Duration(max(p.interval, 0.001) * float64(time.Millisecond))
}
