package cache

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// paces compares how long a cluster's endpoints take for a token of an answer: at the same load, and for answers of the
// same kind. A request decodes for as long as its endpoint takes, however few others are there, so that a slower
// endpoint costs more even while it is idle.
//
// The logarithm of the time per token is taken for a sum: of what its kind of answer takes, of how slow the endpoint
// is, and of what the load there adds. The parts are fitted answer by answer, as in an analysis of covariance: what the
// load adds is learned from how the answers of one endpoint differ, and taken off before endpoints are compared. An
// endpoint with more load is slower, but no slower endpoint.
type paces struct {
	endpoints map[string]*pace // by address
	kinds     map[answerKind]*kindPace
	dxdx      float64 // sums over the latest answers of all endpoints: squares of the load's difference to its mean,
	dxdy      float64 // products with that of the time per token,
	squares   float64 // and squares of what remains unexplained
	answers   float64 // in these sums
	output    float64 // mean tokens of an answer
	outputs   float64 // answers in it

	costs     map[string]float64 // what slower endpoints cost more, in tokens, by address; nil for none
	length    float64            // output, rounded
	version   uint64             // of costs and length
	updatedAt time.Duration
	lists     lb.DerivedLists
}

// answerKind is which answers are compared: one model takes longer for a token than another, and that of an answer in
// one piece has its share of the prompt's time.
type answerKind struct {
	model    uint64
	streamed bool
}

// kindPace is what answers of one kind take.
type kindPace struct {
	log     float64 // mean logarithm of the time per token, at an endpoint with pace.log of 0
	answers float64
	lastAt  time.Duration
}

// pace is how slow one endpoint is. Means are over pacedAnswers answers at most, and older ones count for less.
type pace struct {
	answers float64 // in the means
	load    float64 // mean logarithm of the requests in flight
	log     float64 // mean logarithm of the time per token, less that of its kind
	lastAt  time.Duration
}

const (
	// pacedAnswers is how many answers the pace of an endpoint is a mean of.
	pacedAnswers = 32
	// paceFades is the time constant with which answers count for less. An endpoint that is not asked any more because
	// it was slow is known less and less, and is tried again.
	paceFades = 30 * time.Second
	// minPacedAnswers is from how many answers on an endpoint is compared.
	minPacedAnswers = 8
	// minPacedTokens is the shortest answer whose time per token means something.
	minPacedTokens = 8
	// maxSurprise bounds by how much one answer may differ from what is expected of it, as a logarithm.
	maxSurprise = math.Ln2
	// pooledAnswers is how many answers of all endpoints show what load adds, and how much answers differ.
	pooledAnswers = 512
	// minSlope is the least sum of squares of loads that shows what load adds.
	minSlope = 1
	// minUnexplained is the least variance that answers are assumed to have.
	minUnexplained = 0.01
	// maxKinds bounds the kinds of answers. The one that was not seen for longest is forgotten.
	maxKinds = 64
	// equalPace is the ratio of times up to which endpoints count as equally fast, and unequalPace that from which on
	// they are as unequal as they seem.
	equalPace, unequalPace = 1.15, 1.4
	// maxPaceRatio bounds how much slower than the fastest an endpoint counts.
	maxPaceRatio = 8
	// outputCost is what one output token more costs, as tokens of a prompt. It takes as long to generate as some 100
	// (H200: 4.3 ms and 41 µs) to 200 of them, but its client reads on meanwhile: the tenth of it counts. The value
	// was found by simulation, in e2e/bench/placement; half and twice of it give nearly the same.
	outputCost = 12
	// turnCost is what an output token costs who waits for the slot of the request that it is for: as outputCost, and
	// half of it, since that request has begun.
	turnCost = outputCost / 2
)

// observe learns from an answer.
func (p *paces) observe(now time.Duration, o *lb.Outcome) {
	if o.PerToken <= 0 || o.OutputTokens < minPacedTokens {
		return
	}
	if p.endpoints == nil {
		p.endpoints, p.kinds = map[string]*pace{}, map[answerKind]*kindPace{}
	}
	p.outputs = min(p.outputs+1, pooledAnswers)
	p.output += (float64(o.OutputTokens) - p.output) / p.outputs
	e := p.endpoints[o.Addr]
	if e == nil {
		e = &pace{lastAt: now}
		p.endpoints[o.Addr] = e
	}
	load, log := math.Log1p(float64(max(0, o.Inflight))), math.Log(o.PerToken.Seconds())
	e.answers, e.lastAt = e.answersAt(now), now
	k := p.kind(now, answerKind{o.Model, o.Streamed}, log-e.log-p.slope()*(load-e.load))
	if log -= k.log; e.answers == 0 {
		e.answers, e.load, e.log = 1, load, log
		return
	}
	dx := load - e.load
	rest := log - e.log - p.slope()*dx
	if e.answers >= minPacedAnswers {
		rest = min(max(rest, -maxSurprise), maxSurprise)
		p.pool(dx, rest)
	}
	k.answers = min(k.answers+1, pooledAnswers)
	k.log += rest / k.answers / 2
	e.answers = min(e.answers+1, pacedAnswers)
	e.load += dx / e.answers
	e.log += (rest + p.slope()*dx) / e.answers
}

// kind returns what is known of a kind of answers. For a new one, that is what the first of them takes.
func (p *paces) kind(now time.Duration, of answerKind, log float64) *kindPace {
	k := p.kinds[of]
	if k == nil {
		if len(p.kinds) >= maxKinds {
			var oldest answerKind
			at := time.Duration(math.MaxInt64)
			for other, known := range p.kinds {
				if known.lastAt < at {
					oldest, at = other, known.lastAt
				}
			}
			delete(p.kinds, oldest)
		}
		k = &kindPace{log: log, answers: 1}
		p.kinds[of] = k
	}
	k.lastAt = now
	return k
}

// pool adds an answer of an endpoint that is known to what is learned of all: by how much its load differs from the
// endpoint's mean, and what remains unexplained.
func (p *paces) pool(dx, rest float64) {
	dy := rest + p.slope()*dx
	p.answers = min(p.answers+1, pooledAnswers)
	keep := 1 - 1/p.answers
	p.dxdx, p.dxdy = p.dxdx*keep+dx*dx, p.dxdy*keep+dx*dy
	p.squares = p.squares*keep + rest*rest
}

// slope returns by how much the logarithm of the time per token grows with that of the load, from 0 to 1: an engine
// that serves twice as many takes twice as long at most.
func (p *paces) slope() float64 { return min(max(p.dxdy/(p.dxdx+minSlope), 0), 1) }

// answersAt returns how many answers the means are over, as far as these still count.
func (e *pace) answersAt(now time.Duration) float64 {
	return e.answers * math.Exp(-float64(max(0, now-e.lastAt))/float64(paceFades))
}

// update computes what slower endpoints cost more, once per summaryInterval. Only what is sure counts: one standard
// error is taken off in favour of the slower endpoint, and of the one that seems to be the fastest.
func (p *paces) update(now time.Duration) {
	if len(p.endpoints) == 0 || p.updatedAt > 0 && now-p.updatedAt < summaryInterval {
		return
	}
	p.updatedAt = now
	slope, variance := p.slope(), max(minUnexplained, p.squares/max(1, p.answers))
	standardError := func(e *pace) (off float64, known bool) {
		n := e.answersAt(now)
		return math.Sqrt(variance / n), n >= minPacedAnswers/2
	}
	fastest := math.Inf(1)
	for _, e := range p.endpoints {
		if off, known := standardError(e); known {
			fastest = min(fastest, e.log-slope*e.load+off)
		}
	}
	var costs map[string]float64
	for addr, e := range p.endpoints {
		off, known := standardError(e)
		if !known {
			continue
		}
		if more := moreTime(e.log - slope*e.load - off - fastest); more > 0 {
			if costs == nil {
				costs = map[string]float64{}
			}
			// A small change should give the same list, which stores know already.
			costs[addr] = lb.RoundDigits(outputCost*p.output*more, 3)
		}
	}
	if length := lb.RoundDigits(p.output, 3); length != p.length || !maps.Equal(costs, p.costs) {
		p.costs, p.length, p.version = costs, length, p.version+1
	}
}

// moreTime returns how much more time than the fastest an endpoint takes, as a share, given the difference of the
// logarithms: nothing up to equalPace.
func moreTime(difference float64) float64 {
	if difference <= math.Log(equalPace) {
		return 0
	}
	difference = min(difference, math.Log(maxPaceRatio))
	sure := (difference - math.Log(equalPace)) / math.Log(unequalPace/equalPace)
	return math.Expm1(difference * min(1, sure))
}

// Paced returns the candidates with what it costs, in tokens, that some take longer for a token of an answer, and that
// requests above an endpoint's capacity wait: as many turns as there are such requests, of which the endpoint takes
// capacity at a time, and each of which is an answer long. A turn is charged queue times.
//
// Before answers were seen the candidates stay as they are.
func (c *Tracker) Paced(now time.Duration, l lb.List, queue float64) lb.List {
	p := &c.paces
	p.update(now)
	waits := func(c lb.Candidate) bool { return c.OverSlope > 0 }
	if p.length == 0 || p.costs == nil && !slices.ContainsFunc(l.Candidates, waits) {
		return l
	}
	return p.lists.Get(now, l, lb.Mix(p.version^math.Float64bits(queue)), func(cs []lb.Candidate) []lb.Candidate {
		out := slices.Clone(cs)
		for i := range out {
			o := &out[i]
			o.Base += p.costs[o.Addr]
			if o.OverSlope > 0 {
				o.OverSlope = lb.RoundDigits(queue*turnCost*p.length/max(1, o.Capacity), 8)
			}
		}
		return out
	})
}
