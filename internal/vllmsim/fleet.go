package vllmsim

import (
	"sync"
	"time"
)

// Fleet watches several servers of one process at once. It measures what no server can know
// alone: how long one of them made requests queue while another had nothing to do.
type Fleet struct {
	clock      func() time.Time
	mu         sync.Mutex
	start, at  time.Time
	states     []fleetState
	queueing   int // servers in this state
	idle, free int
	queuedIdle time.Duration
	queuedFree time.Duration
}

// fleetState is what one server looks like from outside.
type fleetState struct {
	queueing bool // a request waits for a slot or for KV blocks
	idle     bool // nothing runs or waits
	free     bool // a new request would start with the next step
}

// FleetState is a Fleet's count since its start or the last Reset, in seconds.
type FleetState struct {
	Seconds float64 `json:"seconds"`
	// QueueingWhileIdle is how long at least one server had requests queueing while another had nothing at all to do.
	QueueingWhileIdle float64 `json:"queueing_while_idle_seconds"`
	// QueueingWhileFree is how long one had while another had a free slot.
	QueueingWhileFree float64 `json:"queueing_while_free_seconds"`
}

// NewFleet returns a Fleet without servers; set it as Config.Fleet of each.
func NewFleet() *Fleet { return newFleet(time.Now) }

func newFleet(clock func() time.Time) *Fleet {
	now := clock()
	return &Fleet{clock: clock, start: now, at: now}
}

// State returns the counts up to now.
func (f *Fleet) State() FleetState {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.advance()
	return FleetState{
		Seconds:           f.at.Sub(f.start).Seconds(),
		QueueingWhileIdle: f.queuedIdle.Seconds(),
		QueueingWhileFree: f.queuedFree.Seconds(),
	}
}

// Reset starts the counts again at 0.
func (f *Fleet) Reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.start = f.clock()
	f.at = f.start
	f.queuedIdle, f.queuedFree = 0, 0
}

// join adds a server, idle at first, and returns its place.
func (f *Fleet) join() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.advance()
	s := fleetState{idle: true, free: true}
	f.states = append(f.states, s)
	f.count(s, 1)
	return len(f.states) - 1
}

// report replaces the state of a server. One that has stopped reports the zero state.
func (f *Fleet) report(id int, s fleetState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.states[id] == s {
		return
	}
	f.advance()
	f.count(f.states[id], -1)
	f.count(s, 1)
	f.states[id] = s
}

func (f *Fleet) count(s fleetState, n int) {
	if s.queueing {
		f.queueing += n
	}
	if s.idle {
		f.idle += n
	}
	if s.free {
		f.free += n
	}
}

// advance counts the time since the last change. Called with the lock held.
func (f *Fleet) advance() {
	now := f.clock()
	dt := now.Sub(f.at)
	f.at = now
	if f.queueing > 0 && f.free > 0 {
		f.queuedFree += dt
	}
	if f.queueing > 0 && f.idle > 0 {
		f.queuedIdle += dt
	}
}
