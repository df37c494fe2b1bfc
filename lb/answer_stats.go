package lb

import "time"

// answerStats estimates how busy the endpoints of a cluster are, from the answers that this VM has seen. All values are
// moving averages.
type answerStats struct {
	answers    int     // number of answers in meanTokens, averagedAnswers at most
	meanTokens float64 // tokens that a request was counted for
	times      map[string]*answerTimes
}

// answerTimes are the mean times of the streamed answers of one endpoint, in seconds from the plan on.
type answerTimes struct {
	answers      int     // number of answers in the means, averagedAnswers at most
	meanTTFT     float64 // to the first token
	meanDuration float64 // to the end
	lastAt       time.Duration
}

const (
	// averagedAnswers is how many answers a mean is over.
	averagedAnswers = 64
	// requestCostShare is the cost of a request in flight beside its tokens, as a share of the mean tokens: however
	// short it is, it occupies one of the endpoint's batch slots.
	requestCostShare = 1.0 / 4
	// growthPerWaiting is the growth of the credit for each request that waits for prefill. The value was found by
	// simulation, in e2e/placement.
	growthPerWaiting = 4
)

// observe adds an answer.
func (s *answerStats) observe(now time.Duration, o *Outcome) {
	if o.CountedTokens <= 0 {
		return
	}
	s.answers = min(s.answers+1, averagedAnswers)
	s.meanTokens += (float64(o.CountedTokens) - s.meanTokens) / float64(s.answers)
	if o.TTFT == 0 {
		return
	}
	t := s.times[o.Addr]
	if t == nil {
		t = &answerTimes{}
		s.times[o.Addr] = t
	}
	t.answers, t.lastAt = min(t.answers+1, averagedAnswers), now
	t.meanTTFT += (o.TTFT.Seconds() - t.meanTTFT) / float64(t.answers)
	t.meanDuration += (o.Duration.Seconds() - t.meanDuration) / float64(t.answers)
}

// perRequest returns the load of a request in flight beside its tokens, in tokens: see [Plan.PerRequest].
func (s *answerStats) perRequest() int64 { return int64(requestCostShare * s.meanTokens) }

// creditGrowth returns [Prefix.CreditGrowth] for the candidates. Computing tokens that are cached elsewhere delays all
// requests that wait for prefill, so a match is worth more the more requests wait.
//
// By Little's law, TTFT / duration is the share of an endpoint's requests that have no token yet. They wait for prefill
// for that same share of the time, in which the endpoint is busy with it; else they wait for a batch slot, and a match
// gains less. Hence the square. The lowest share of any candidate counts, since requests can be sent there; it is 0 for
// a candidate without answers, which may just have been added.
func (s *answerStats) creditGrowth(cs []Candidate) float64 {
	share := 1.0
	for i := range cs {
		t := s.times[cs[i].Addr]
		if t == nil || t.meanDuration == 0 {
			return 0
		}
		share = min(share, t.meanTTFT/t.meanDuration)
	}
	return growthPerWaiting * share * share
}
