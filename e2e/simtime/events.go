// Package simtime keeps what is to happen in simulated time, for tests and benchmarks.
package simtime

import (
	"container/heap"
	"time"
)

// Events are what is to happen. The zero value is none.
type Events struct {
	list  list
	order int
}

// At has do happen at a time, behind what was to happen at the same time before.
func (e *Events) At(at time.Duration, do func()) {
	e.order++
	heap.Push(&e.list, event{at, e.order, do})
}

// Run has all happen that is not later than until, one after the other, each with its time in now.
func (e *Events) Run(now *time.Duration, until time.Duration) {
	for len(e.list) > 0 && e.list[0].at <= until {
		next := heap.Pop(&e.list).(event)
		*now = next.at
		next.do()
	}
}

// Ever is later than all that happens.
const Ever = time.Duration(1<<63 - 1)

type event struct {
	at    time.Duration
	order int // of events at the same time
	do    func()
}

type list []event

func (l list) Len() int { return len(l) }
func (l list) Less(i, j int) bool {
	return l[i].at < l[j].at || l[i].at == l[j].at && l[i].order < l[j].order
}
func (l list) Swap(i, j int) { l[i], l[j] = l[j], l[i] }
func (l *list) Push(x any)   { *l = append(*l, x.(event)) }
func (l *list) Pop() any {
	last := (*l)[len(*l)-1]
	*l = (*l)[:len(*l)-1]
	return last
}
