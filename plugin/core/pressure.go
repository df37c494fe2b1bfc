package core

import "time"

// Backpressure is half how long requests wait and half how many are refused, over a minute.
const (
	pressureSlots = 6
	pressureSlot  = 10 * time.Second
	// leastWait and mostWait are waits that do not matter, and that are as bad as longer ones.
	leastWait = 25 * time.Millisecond
	mostWait  = time.Second
	// waitSteps is how many parts the time between them is divided into.
	waitSteps = 39
)

// pressure counts the requests of a cluster with a queue by how long they have waited.
type pressure [pressureSlots]tally

// tally is the requests of one part of that minute.
type tally struct {
	period  int64
	waits   [waitSteps + 2]uint32 // those that waited for leastWait at most, by steps, and for longer than mostWait
	placed  uint32
	refused uint32
}

// add counts a request that has waited, or was refused.
func (p *pressure) add(now, waited time.Duration, refused bool) {
	period := int64(now / pressureSlot)
	s := &p[period%pressureSlots]
	if s.period != period {
		*s = tally{period: period}
	}
	if refused {
		s.refused++
		return
	}
	s.placed++
	step := 0
	if waited > leastWait {
		step = min(1+int((waited-leastWait)*waitSteps/(mostWait-leastWait)), waitSteps+1)
	}
	s.waits[step]++
}

// share returns the backpressure, from 0 to 1.
func (p *pressure) share(now time.Duration) float64 {
	var waits [waitSteps + 2]uint32
	placed, refused := uint32(0), uint32(0)
	for i := range p {
		s := &p[i]
		if int64(now/pressureSlot)-s.period >= pressureSlots {
			continue
		}
		placed += s.placed
		refused += s.refused
		for step, n := range s.waits {
			waits[step] += n
		}
	}
	if placed+refused == 0 {
		return 0
	}
	longest := 0 // 95 % have waited for no longer than this step
	for seen := waits[0]; float64(seen) < 0.95*float64(placed); seen += waits[longest] {
		longest++
	}
	return 0.5*min(float64(longest)/waitSteps, 1) + 0.5*float64(refused)/float64(placed+refused)
}
