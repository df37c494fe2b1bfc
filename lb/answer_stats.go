package lb

import "time"

// answerStats is what answers have taught of how busy the endpoints of a cluster are: moving averages over the requests
// that this VM has sent there.
type answerStats struct {
	answers    int     // that work is averaged over, pressureOver at most
	meanTokens float64 // tokens that a request was counted for
	times      map[string]*answerTimes
}

// answerTimes are those of the streamed answers of an endpoint.
type answerTimes struct {
	answers      int           // that are averaged, pressureOver at most
	meanTTFT     float64       // seconds to the first part
	meanDuration float64       // seconds to the end
	lastAt       time.Duration // of the latest
}

const (
	// averagedAnswers is how many answers are averaged.
	averagedAnswers = 64
	// requestCostShare is which part of the usual work a request in flight costs beside its tokens: it holds one of the
	// places that an endpoint has in its batch, however short it is.
	requestCostShare = 1.0 / 4
	// growthPerWaiting is by how much one request that waits for computing raises what is cached. It was found by
	// e2e/placement.
	growthPerWaiting = 4
)

// observe takes an answer into account.
func (p *answerStats) observe(now time.Duration, o *Outcome) {
	if o.CountedTokens <= 0 {
		return
	}
	p.answers = min(p.answers+1, averagedAnswers)
	p.meanTokens += (float64(o.CountedTokens) - p.meanTokens) / float64(p.answers)
	if o.TTFT == 0 {
		return
	}
	t := p.times[o.Addr]
	if t == nil {
		t = &answerTimes{}
		p.times[o.Addr] = t
	}
	t.answers, t.lastAt = min(t.answers+1, averagedAnswers), now
	t.meanTTFT += (o.TTFT.Seconds() - t.meanTTFT) / float64(t.answers)
	t.meanDuration += (o.Duration.Seconds() - t.meanDuration) / float64(t.answers)
}

// perRequest returns what a request in flight costs beside its tokens.
func (p *answerStats) perRequest() int64 { return int64(requestCostShare * p.meanTokens) }

// creditGrowth returns by how much each request in flight, at all of the candidates, raises what is cached: see [Prefix].
// Tokens that are computed although they are cached elsewhere hold up all requests that wait for computing. By Little's
// law the requests at an endpoint that have no part of their answer yet are to all there as the time to the first part
// of an answer is to all of its time. They wait for computing as far as that is what the endpoint is busy with: in that
// part of the time. Else they wait for a place in the batch, and there is less to gain. The candidate where that part
// is least counts, since requests can go there, and an unknown one has none: it may just have been added.
func (p *answerStats) creditGrowth(cs []Candidate) float64 {
	least := 1.0
	for i := range cs {
		t := p.times[cs[i].Addr]
		if t == nil || t.meanDuration == 0 {
			return 0
		}
		least = min(least, t.meanTTFT/t.meanDuration)
	}
	return growthPerWaiting * least * least
}
