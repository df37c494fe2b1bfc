package fakehost

import (
	"container/heap"
	"time"
)

// Clock moves simulated time on, and has timers. Timers due at the same moment run in the order in which they were set.
type Clock struct {
	now    *time.Duration
	seq    uint64
	timers timerHeap
}

// Timer is one pending event; a stopped timer stays in the heap with a nil function.
type Timer struct {
	at  time.Duration
	seq uint64
	fn  func()
}

// NewClock returns a clock that keeps the time at now.
func NewClock(now *time.Duration) *Clock { return &Clock{now: now} }

// After runs fn d from now, during some later Advance.
func (c *Clock) After(d time.Duration, fn func()) *Timer {
	c.seq++
	t := &Timer{at: *c.now + d, seq: c.seq, fn: fn}
	heap.Push(&c.timers, t)
	return t
}

// At returns when the timer is due.
func (t *Timer) At() time.Duration { return t.at }

// Stop makes the timer do nothing any more. There may be none.
func (t *Timer) Stop() {
	if t != nil {
		t.fn = nil
	}
}

// Advance moves time on by d and runs every timer that comes due, settling after each one.
func (c *Clock) Advance(d time.Duration, settle func()) {
	end := *c.now + d
	for len(c.timers) > 0 && c.timers[0].at <= end {
		t := heap.Pop(&c.timers).(*Timer)
		if t.fn == nil {
			continue
		}
		*c.now = max(*c.now, t.at)
		t.fn()
		settle()
	}
	*c.now = end
}

type timerHeap []*Timer

func (h timerHeap) Len() int { return len(h) }
func (h timerHeap) Less(i, j int) bool {
	if h[i].at != h[j].at {
		return h[i].at < h[j].at
	}
	return h[i].seq < h[j].seq
}
func (h timerHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *timerHeap) Push(x any)   { *h = append(*h, x.(*Timer)) }
func (h *timerHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	*h = old[:len(old)-1]
	return t
}
