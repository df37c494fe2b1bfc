package admission

import (
	"time"

	"github.com/warmgate/warmgate/internal/wire"
)

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

// Pressure counts requests by how long they wait.
type Pressure [pressureSlots]tally

// tally is the requests of one part of that minute.
type tally struct {
	period   int64
	waits    [waitSteps + 2]uint32 // those that waited for leastWait at most, by steps, and for longer than mostWait
	requests uint32
	refused  uint32 // of these
}

// Add counts a request that has waited, or was refused.
func (p *Pressure) Add(now, waited time.Duration, refused bool) {
	s := p.at(now)
	s.count(refused)
	if !refused {
		s.addWait(waited)
	}
}

// addCall counts a call that was admitted, or was told how long to wait: that is its wait.
func (p *Pressure) addCall(now, wait time.Duration, admitted bool) {
	s := p.at(now)
	s.count(!admitted)
	s.addWait(wait)
}

// at returns the tally of a time.
func (p *Pressure) at(now time.Duration) *tally {
	period := int64(now / pressureSlot)
	s := &p[period%pressureSlots]
	if s.period != period {
		*s = tally{period: period}
	}
	return s
}

func (s *tally) count(refused bool) {
	s.requests++
	if refused {
		s.refused++
	}
}

func (s *tally) addWait(waited time.Duration) {
	step := 0
	if waited > leastWait {
		step = min(int(((waited-leastWait)*waitSteps+mostWait-leastWait-1)/(mostWait-leastWait)), waitSteps+1)
	}
	s.waits[step]++
}

// Share returns the backpressure, from 0 to 1.
func (p *Pressure) Share(now time.Duration) float64 {
	var waits [waitSteps + 2]uint32
	waited, requests, refused := uint32(0), uint32(0), uint32(0)
	for i := range p {
		s := &p[i]
		if int64(now/pressureSlot)-s.period >= pressureSlots {
			continue
		}
		requests += s.requests
		refused += s.refused
		for step, n := range s.waits {
			waits[step] += n
			waited += n
		}
	}
	if requests == 0 {
		return 0
	}
	longest := 0 // 95 % have waited for no longer than this step
	for seen := waits[0]; float64(seen) < 0.95*float64(waited); seen += waits[longest] {
		longest++
	}
	return 0.5*min(float64(longest)/waitSteps, 1) + 0.5*float64(refused)/float64(requests)
}

// merge adds what another one has counted. Of two periods in one place the later one counts.
func (p *Pressure) merge(other *Pressure) {
	for i := range p {
		s, o := &p[i], &other[i]
		if o.period > s.period {
			*s = tally{period: o.period}
		}
		if o.period < s.period {
			continue
		}
		s.requests += o.requests
		s.refused += o.refused
		for step, n := range o.waits {
			s.waits[step] += n
		}
	}
}

// pressureBytes is the length of a pressure in shared memory.
const pressureBytes = pressureSlots * (8 + 4*(2+waitSteps+2))

// pack returns it for shared memory: of each tally the period i64, requests u32, refused u32, waits u32 each.
func (p *Pressure) pack() []byte {
	w := make(wire.Writer, 0, pressureBytes)
	for i := range p {
		s := &p[i]
		w = w.Int64(s.period).Uint32(s.requests).Uint32(s.refused)
		for _, n := range s.waits {
			w = w.Uint32(n)
		}
	}
	return w
}

// ReadPressure reads what pack has written. Anything else is a pressure that has counted nothing.
func ReadPressure(raw []byte) (p Pressure) {
	r := wire.NewReader(raw)
	for i := range p {
		s := &p[i]
		s.period, s.requests, s.refused = r.Int64(), r.Uint32(), r.Uint32()
		for step := range s.waits {
			s.waits[step] = r.Uint32()
		}
	}
	if !r.OK() || r.Len() > 0 {
		return Pressure{}
	}
	return p
}
