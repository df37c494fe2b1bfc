package cache

import (
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/warmgate/warmgate/internal/order"
	"github.com/warmgate/warmgate/lb"
)

const (
	// lateCost is what it costs to come to an endpoint with twice as many requests as are answered in time there, in
	// typical requests.
	lateCost = 16
	// roomToSpare is how many times the requests in flight the endpoints have to answer in time for targets to matter:
	// where all are late, to leave a cached prompt makes all of them later still.
	roomToSpare = 1.5
	// assumedSlope is which power of the load times are assumed to grow with before answers show it.
	assumedSlope = 0.5
	// minTimeSlope bounds that power, since a time that does not depend on the load says nothing of other loads;
	// maxFirstSlope is for the first token, which is later by more than the load where requests wait for the batch.
	minTimeSlope, maxFirstSlope, maxTokenSlope = assumedSlope / 4, 3, 1
	// firstMargin is by how many standard deviations the first token has to be expected too late: most of its time
	// depends on what is cached, which is not known before the choice. Of tokens behind it none.
	firstMargin, tokenMargin = 2, 0
	// minInTime and maxInTime bound how many requests an endpoint of weight 1 is said to answer in time.
	minInTime, maxInTime = 1.0 / 16, 1 << 16
	// inTimeSteps is how many steps there are up to twice as many requests: lists are to change seldom.
	inTimeSteps = 4
)

// firstTimes compares how long a cluster's endpoints take to the first token, as paces does for those behind it: the
// logarithm of the time is a sum of what its kind of prompt takes, of how slow the endpoint is, and of what the load
// there adds. A kind is a model and the length of the prompt, by powers of two; what is cached of it is as of such
// prompts usually is.
//
// It is learned only where somebody has a target: an answer costs a logarithm and two lookups.
type firstTimes struct {
	sharedTimes
	wanted   bool
	wantedAt time.Duration // when there was a target last
}

// want has times be learned from now on.
func (f *firstTimes) want(now time.Duration) {
	f.wanted, f.wantedAt = true, max(now, f.wantedAt)
	f.pending.used = true
}

// firstKind returns the kind of prompts of so many tokens for a model.
func firstKind(model uint64, prompt int64) answerKind {
	return answerKind{model: model ^ lb.Mix(uint64(bits.Len64(uint64(max(0, prompt))))), streamed: true}
}

// observe learns from an answer.
func (f *firstTimes) observe(now time.Duration, o *lb.Outcome) {
	if f.wanted = f.wanted && now-f.wantedAt <= idleEndpointTTL; !f.wanted || o.TTFT <= 0 || o.PlannedPrompt <= 0 {
		return
	}
	f.sharedTimes.observe(now, &pacedAnswer{
		addr: o.Addr, kind: firstKind(o.Model, o.PlannedPrompt),
		load: min(math.Log1p(max(0, o.Load)), maxLogLoad), log: math.Log(o.TTFT.Seconds()),
	})
}

// InTime returns the candidates with what it costs that an answer comes too late: nothing up to as many requests as an
// endpoint answers in time, and beyond that the more the later. How many that are is found by the times that answers
// have taken there at other loads. Without enough of these, and while the endpoints have not the room for it, the
// candidates stay as they are.
func (c *Tracker) InTime(now time.Duration, l lb.List, r *lb.Request, t lb.Target) lb.List {
	if t == (lb.Target{}) {
		return l
	}
	if !r.Trial {
		c.firsts.want(now)
	}
	kind := firstKind(r.ModelName, r.PromptTokens)
	key := lb.Mix(lb.Mix(lb.Mix(uint64(t.TTFT))^uint64(t.PerToken)) ^ kind.model ^ r.ModelName)
	return c.inTime.Get(now, l, key^lb.Mix(uint64(now/summaryInterval)), func(cs []lb.Candidate) []lb.Candidate {
		most := c.mostInTime(now, cs, r, t)
		if most == nil {
			return cs
		}
		out, request := slices.Clone(cs), lb.RoundDigits(max(1, c.answers.meanTokens), 1)
		for i := range out {
			o := &out[i]
			if n := most[i] * o.Weight; n < maxInTime && (o.OverSlope == 0 || n < o.Capacity) {
				o.Capacity, o.OverSlope = n, lateCost*request/most[i]
			}
		}
		return out
	})
}

// mostInTime returns how many requests in flight, for a weight of 1, each candidate answers in time; nil if that is
// known of none, or if together these are too few. One of which nothing is known is as the median of the others.
func (c *Tracker) mostInTime(now time.Duration, cs []lb.Candidate, r *lb.Request, t lb.Target) []float64 {
	most, known := make([]float64, len(cs)), make([]float64, 0, len(cs))
	first, token := firstKind(r.ModelName, r.PromptTokens), answerKind{r.ModelName, true}
	for i := range cs {
		most[i] = min(
			c.firsts.within(now, cs[i].Addr, first, t.TTFT, firstMargin, maxFirstSlope),
			c.paces.within(now, cs[i].Addr, token, t.PerToken, tokenMargin, maxTokenSlope))
		if !math.IsInf(most[i], 1) {
			known = append(known, most[i])
		}
	}
	if len(known) == 0 {
		return nil
	}
	order.Up(known)
	median, second := known[(len(known)-1)/2], known[max(0, len(known)-2)]
	places, taken, weights := 0.0, 1.0, 0.0 // with this request
	for i := range most {
		if math.IsInf(most[i], 1) {
			most[i] = median
		}
		places += most[i] * cs[i].Weight
		load := max(c.paces.meanLoad(cs[i].Addr), c.firsts.meanLoad(cs[i].Addr))
		taken += max(0, load*cs[i].Weight-1) // each request has seen itself there
		weights += cs[i].Weight
	}
	if places < roomToSpare*taken || places < 1 {
		return nil
	}
	// As with paces, one that says wrong numbers does not draw all requests: it has twice the place that the next one
	// has, or that each needs.
	limit := maxLead * max(second, taken/weights, 1)
	for i := range most {
		most[i] = min(stepped(min(most[i], limit)), maxInTime)
	}
	return most
}

// stepped returns the next number down that is a step: see inTimeSteps.
func stepped(n float64) float64 {
	return math.Exp2(math.Floor(math.Log2(n)*inTimeSteps) / inTimeSteps)
}

// meanLoad returns how many requests are in flight at an endpoint, for a weight of 1; 0 if that is not known.
func (p *paceState) meanLoad(addr string) float64 {
	if e := p.endpoints[addr]; e != nil {
		return math.Expm1(e.load)
	}
	return 0
}

// within returns up to how many requests in flight, for a weight of 1 and with the one that is asked for, an endpoint
// gives answers of a kind within the limit: +Inf for any number, and if it is not known. margin is by how many standard
// deviations they may be expected later.
func (p *paceState) within(
	now time.Duration, addr string, kind answerKind, limit time.Duration, margin, steepest float64,
) float64 {
	e, k := p.endpoints[addr], p.kinds[kind]
	if limit <= 0 || e == nil || k == nil || e.seen < minPacedAnswers || k.answers < minPacedAnswers ||
		e.answersAt(now) < minPacedAnswers/2 {
		return math.Inf(1)
	}
	slope := min(max((p.dxdy+assumedSlope*minSlope)/(p.dxdx+minSlope), minTimeSlope), steepest)
	spare := math.Log(limit.Seconds()) - k.log - e.log + margin*math.Sqrt(p.variance())
	return max(minInTime, math.Expm1(min(e.load+spare/slope, math.Log(2*maxInTime))))
}
