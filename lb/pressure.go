package lb

// pressure is what answers have taught of how busy the endpoints of a cluster are: moving averages over the requests
// that this VM has sent there. Counts of what is in flight are those of all gateways, so they need not be scaled.
type pressure struct {
	answers  float64 // that the averages are over, pressureOver at most
	work     float64 // tokens that a request was counted for
	inflight float64 // requests that a request finds at its endpoint
	first    float64 // seconds to the first part of an answer
	took     float64 // seconds to its end
}

const (
	// pressureOver is how many answers are averaged.
	pressureOver = 64
	// slotShare is which part of the usual work a request in flight costs beside its tokens: it holds one of the places
	// that an endpoint has in its batch, however short it is.
	slotShare = 1.0 / 4
	// mostGain is how many times as much what is cached is worth at most.
	mostGain = 16
)

// observe takes an answer into account.
func (p *pressure) observe(o *Outcome) {
	if o.Work <= 0 {
		return
	}
	p.answers = min(p.answers+1, pressureOver)
	average := func(mean *float64, x float64) { *mean += (x - *mean) / p.answers }
	average(&p.work, float64(o.Work))
	average(&p.inflight, float64(o.Inflight))
	average(&p.first, o.First.Seconds())
	average(&p.took, o.Took.Seconds())
}

// slot returns what a request in flight costs beside its tokens.
func (p *pressure) slot() int64 { return int64(slotShare * p.work) }

// waiting returns how many requests at an endpoint have no part of their answer yet. By Little's law that is to the
// requests there as the time to the first part of an answer is to all of its time.
func (p *pressure) waiting() float64 {
	if p.took == 0 {
		return 0
	}
	return p.inflight * p.first / p.took
}

// gain returns how many times as much as without load what is cached is worth: as many as requests wait at an endpoint.
// Tokens that are computed although they are cached elsewhere hold up all of these. As long as one waits at most, there
// mostly is an idle endpoint to go to.
func (p *pressure) gain() float64 { return min(max(1, p.waiting()), mostGain) }
