package queue

import "time"

const (
	// MinPace is how many grants it takes to know a pace, if that is more than there are requests in flight.
	MinPace = 8
	// paceTime in ms and paceRounds, in numbers of requests in flight, are how much the pace is of at most: as soon as
	// there is more of both, those before count for less with each grant.
	paceTime, paceRounds = 60_000, 4
	// paceMemory is within which time a pace is forgotten when nobody waits any more.
	paceMemory = time.Minute
)

// pace is how long requests are in flight, by which it is known how fast capacity becomes free (Little's law: with n in
// flight, each for a time t, one ends in each t/n). It is measured by the grants of the time in which somebody waits
// and no endpoint is open to those that wait. The clock stands still at other times, which do not show what ends:
// nobody waits, or those that do leave an open endpoint to others, because a full one has their prompts, or there is no
// endpoint for them.
//
// All times but now are multiplied by the number of requests that are in flight meanwhile, in ms.
type pace struct {
	now     uint32  // up to when the clock was read, in ms
	running bool    // the clock runs
	places  float64 // requests in flight, 1 at least, when a request last began to wait
	time    float64 // for how long the clock ran
	grants  float64 // that were made meanwhile
	gap     float64 // for how long it ran since the latest of these
	longest float64 // longest time between two of these
}

// read reads the clock. It is called while somebody waits.
func (p *pace) read(now uint32) {
	passed := p.passed(now) * p.places
	if p.now = now; p.running {
		p.time += passed
		p.gap += passed
	}
}

// passed returns the time since the clock was read, in ms. The clock of the VM that read it may be ahead.
func (p *pace) passed(now uint32) float64 { return float64(max(0, int32(now-p.now))) }

// arrived is called when a request begins to wait, the first one for an endpoint that is there or another one. What is
// granted while an endpoint is open to it does not count.
func (p *pace) arrived(now uint32, first bool, t *Ticket) {
	if first {
		p.fade(max(0, 1-p.passed(now)/float64(millis(paceMemory))))
		p.now, p.running = now, true
	}
	p.read(now)
	p.places, p.running = t.places(), p.running && !t.Open
}

// granted is called for each grant while the clock runs, when it was read.
func (p *pace) granted() {
	p.grants++
	p.longest, p.gap = max(p.longest, p.gap), 0
	p.fade(min(1, max(paceTime*p.places/p.time, paceRounds*evidence(p.places)/p.grants)))
}

// fade has all that was before count for a part of it.
func (p *pace) fade(kept float64) {
	p.time *= kept
	p.grants *= kept
	p.gap *= kept
	p.longest *= kept
}

// evidence is how many grants it takes to know how long requests are in flight: about as many as there are.
func evidence(places float64) float64 { return max(places, MinPace) }

// interval returns the mean time between two grants in ms while so many requests are in flight, and how many of the
// next ones may come at any moment. With fewer grants than evidence, these are the others: if all came now, requests
// would be in flight for as long as the clock ran.
//
// The longest time between two grants counts for no more than all that are in flight take in the mean: a pause of all
// servers does not show how fast they are. Where answers end together, many at a time, each such time is one of those.
func (p pace) interval(now uint32, places float64) (mean, due float64) {
	p.read(now)
	least := evidence(places)
	if p.grants < least {
		return p.time / least / places, least - p.grants
	}
	time := p.time - p.gap
	if p.grants >= 2*least {
		time -= p.longest
		time += min(p.longest, least*time/(p.grants-1))
	}
	return time / p.grants / places, 0
}

// Interval returns the mean time between two grants by a pace, 0 if it is not known.
func Interval(places, clock, grants, gap, longest float64) time.Duration {
	p := pace{places: places, time: clock, grants: grants, gap: gap, longest: longest}
	if p.grants < evidence(places) {
		return 0
	}
	mean, _ := p.interval(p.now, p.places)
	return time.Duration(mean * float64(time.Millisecond))
}
