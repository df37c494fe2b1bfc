package lb

import "time"

// pressure is what answers have taught of how busy the endpoints of a cluster are: moving averages over the requests
// that this VM has sent there.
type pressure struct {
	answers int     // that work is averaged over, pressureOver at most
	work    float64 // tokens that a request was counted for
	times   map[string]*times
}

// times are those of the streamed answers of an endpoint.
type times struct {
	answers int           // that are averaged, pressureOver at most
	first   float64       // seconds to the first part
	took    float64       // seconds to the end
	at      time.Duration // of the latest
}

const (
	// pressureOver is how many answers are averaged.
	pressureOver = 64
	// requestShare is which part of the usual work a request in flight costs beside its tokens: it holds one of the
	// places that an endpoint has in its batch, however short it is.
	requestShare = 1.0 / 4
	// waitWeight is by how much one request that waits for computing raises what is cached. It was found by
	// e2e/placement.
	waitWeight = 4
)

// observe takes an answer into account.
func (p *pressure) observe(now time.Duration, o *Outcome) {
	if o.CountedTokens <= 0 {
		return
	}
	p.answers = min(p.answers+1, pressureOver)
	p.work += (float64(o.CountedTokens) - p.work) / float64(p.answers)
	if o.TTFT == 0 {
		return
	}
	t := p.times[o.Addr]
	if t == nil {
		t = &times{}
		p.times[o.Addr] = t
	}
	t.answers, t.at = min(t.answers+1, pressureOver), now
	t.first += (o.TTFT.Seconds() - t.first) / float64(t.answers)
	t.took += (o.Duration.Seconds() - t.took) / float64(t.answers)
}

// perRequest returns what a request in flight costs beside its tokens.
func (p *pressure) perRequest() int64 { return int64(requestShare * p.work) }

// wait returns by how much each request in flight, at all of the candidates, raises what is cached: see [Prefix].
// Tokens that are computed although they are cached elsewhere hold up all requests that wait for computing. By Little's
// law the requests at an endpoint that have no part of their answer yet are to all there as the time to the first part
// of an answer is to all of its time. They wait for computing as far as that is what the endpoint is busy with: in that
// part of the time. Else they wait for a place in the batch, and there is less to gain. The candidate where that part
// is least counts, since requests can go there, and an unknown one has none: it may just have been added.
func (p *pressure) wait(cs []Candidate) float64 {
	least := 1.0
	for i := range cs {
		t := p.times[cs[i].Addr]
		if t == nil || t.took == 0 {
			return 0
		}
		least = min(least, t.first/t.took)
	}
	return waitWeight * least * least
}
