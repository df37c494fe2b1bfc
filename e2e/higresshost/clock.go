package higresshost

import (
	"container/heap"
	"time"
)

// clock is simulated time with timers. Timers due at the same moment run in the order in which they were set.
type clock struct {
	now    time.Time
	start  time.Time
	seq    uint64
	timers timerHeap
}

// timer is one pending event; a stopped timer stays in the heap with a nil function.
type timer struct {
	at  time.Time
	seq uint64
	fn  func()
}

func newClock(start time.Time) *clock { return &clock{now: start, start: start} }

// after runs fn d from now, during some later advance.
func (c *clock) after(d time.Duration, fn func()) *timer {
	c.seq++
	t := &timer{at: c.now.Add(d), seq: c.seq, fn: fn}
	heap.Push(&c.timers, t)
	return t
}

func (t *timer) stop() {
	if t != nil {
		t.fn = nil
	}
}

// advance moves time on by d and runs every timer that comes due, settling after each one.
func (c *clock) advance(d time.Duration, settle func()) {
	end := c.now.Add(d)
	for len(c.timers) > 0 && !c.timers[0].at.After(end) {
		t := heap.Pop(&c.timers).(*timer)
		if t.fn == nil {
			continue
		}
		if t.at.After(c.now) {
			c.now = t.at
		}
		t.fn()
		settle()
	}
	c.now = end
}

type timerHeap []*timer

func (h timerHeap) Len() int { return len(h) }
func (h timerHeap) Less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].seq < h[j].seq
}
func (h timerHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *timerHeap) Push(x any)   { *h = append(*h, x.(*timer)) }
func (h *timerHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	*h = old[:len(old)-1]
	return t
}
