package cache

import (
	"time"

	"github.com/warmgate/warmgate/lb"
)

// answerStats estimates how busy the endpoints of a cluster are, from the answers that this VM has seen. All values are
// moving averages.
type answerStats struct {
	answers    int     // number of answers in meanTokens, averagedAnswers at most
	meanTokens float64 // tokens that a request was counted for
	times      map[string]*answerTimes
}

// answerTimes are the mean times of the streamed answers of one endpoint, in seconds from the plan on.
type answerTimes struct {
	answers      int           // number of answers in the means, averagedAnswers at most
	meanTTFT     float64       // to the first token
	meanDuration float64       // to the end
	lastAt       time.Duration // of the latest answer, or when it was last a candidate
	firstSeen    time.Duration // as a candidate
}

const (
	// averagedAnswers is how many answers a mean is over.
	averagedAnswers = 64
	// requestCostShare is the cost of a request in flight beside its tokens, as a share of the mean tokens: however
	// short it is, it occupies one of the endpoint's batch slots.
	requestCostShare = 1.0 / 4
	// maxDurationFactor bounds the duration of an answer, as a multiple of the endpoint's mean or of the answer's
	// TTFT. An answer ends when the client has read it, which may be long after the endpoint has computed it. The
	// bound is wide, since the mean of a few long answers among many short ones is to be found too. It is narrower
	// for the first fewAnswers of an endpoint, each of which is a large part of the mean.
	maxDurationFactor      = 32
	maxFirstDurationFactor = 4
	fewAnswers             = 16
	// newEndpointTime is how long an endpoint without streamed answers counts as new. One without them for longer has
	// few requests in flight, which limits the credit, or streams no answers.
	newEndpointTime = time.Minute
	// growthPerWaiting is the growth of the credit for each request that waits for prefill. The value was found by
	// simulation, in e2e/placement.
	growthPerWaiting = 4
	// maxIdleWaiting is the share of requests that wait for prefill from which on endpoints are too busy for
	// conversations to be held where they were. It was found by simulation, in e2e/bench/placement.
	maxIdleWaiting = 1.0 / 16
)

// observe adds an answer.
func (s *answerStats) observe(now time.Duration, o *lb.Outcome) {
	if o.CountedTokens <= 0 {
		return
	}
	s.answers = min(s.answers+1, averagedAnswers)
	s.meanTokens += (float64(o.CountedTokens) - s.meanTokens) / float64(s.answers)
	if o.TTFT == 0 {
		return
	}
	t := s.timesOf(now, o.Addr)
	ttft, duration := o.TTFT.Seconds(), o.Duration.Seconds()
	if mean := s.knownDuration(t); mean > 0 {
		factor := float64(maxDurationFactor)
		if t.answers < fewAnswers {
			factor = maxFirstDurationFactor
		}
		duration = min(duration, factor*max(mean, ttft))
	}
	t.answers = min(t.answers+1, averagedAnswers)
	t.meanTTFT += (ttft - t.meanTTFT) / float64(t.answers)
	t.meanDuration += (duration - t.meanDuration) / float64(t.answers)
}

// timesOf returns the times of the endpoint, which is in use now.
func (s *answerStats) timesOf(now time.Duration, addr string) *answerTimes {
	t := s.times[addr]
	if t == nil {
		t = &answerTimes{firstSeen: now}
		s.times[addr] = t
	}
	t.lastAt = now
	return t
}

// knownDuration returns the mean duration of the endpoint's answers. For an endpoint without answers it is that of the
// endpoint with the longest one, 0 if no endpoint has answers.
func (s *answerStats) knownDuration(t *answerTimes) float64 {
	if t.answers > 0 {
		return t.meanDuration
	}
	longest := 0.0
	for _, other := range s.times {
		longest = max(longest, other.meanDuration)
	}
	return longest
}

// perRequest returns the load of a request in flight beside its tokens, in tokens: see [lb.Plan.PerRequest].
func (s *answerStats) perRequest() int64 { return int64(requestCostShare * s.meanTokens) }

// creditGrowth returns [lb.Prefix.CreditGrowth] for the requests of each tier, given the candidates of all tiers.
// Computing tokens that are cached elsewhere delays all requests that wait for prefill, so a match is worth more the
// more of them wait.
//
// By Little's law, TTFT / duration is the share of an endpoint's requests that have no token yet. The endpoint is busy
// with prefill for that same share of the time. Only then do they wait for prefill; otherwise they wait for a batch
// slot, and a match gains less. Hence the square. The lowest share of any candidate of the tier counts, since requests
// can be sent there.
// It is 0 for a candidate without streamed answers that is new. Later such a candidate is ignored; if all are, the
// credit does not grow.
func (s *answerStats) creditGrowth(now time.Duration, cs []lb.Candidate) []float64 {
	var lowest []float64 // by tier
	for i := range cs {
		for int(cs[i].Tier) >= len(lowest) {
			lowest = append(lowest, unknownShare)
		}
		tier := &lowest[cs[i].Tier]
		*tier = min(*tier, s.waitingShare(now, cs[i].Addr))
	}
	growth := make([]float64, len(lowest))
	for tier, share := range lowest {
		if share < unknownShare {
			growth[tier] = growthPerWaiting * share * share
		}
	}
	return growth
}

// unknownShare is above every share.
const unknownShare = 2

// waitingShare returns the share of the endpoint's requests that wait for prefill: 0 for a new endpoint, unknownShare
// for one without streamed answers that is not new.
func (s *answerStats) waitingShare(now time.Duration, addr string) float64 {
	switch t := s.timesOf(now, addr); {
	case t.meanDuration > 0:
		return min(1, t.meanTTFT/t.meanDuration)
	case now-t.firstSeen < newEndpointTime:
		return 0
	}
	return unknownShare
}
