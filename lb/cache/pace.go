package cache

import (
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
	sharedTimes
	version   uint64 // changes with what lists are made of: see update
	updatedAt time.Duration
	lists     lb.DerivedLists
}

// paceState is what was learned, by all workers of a gateway together: see pace_exchange.go.
type paceState struct {
	learnedAt time.Duration    // when it was last learned from an answer, or just after if others were at that time
	endpoints map[string]*pace // by address
	kinds     map[answerKind]*kindPace
	paceSums
}

// paceSums is what was learned of all endpoints together.
type paceSums struct {
	dxdx    float64 // sums over the latest answers of all endpoints: squares of the load's difference to its mean,
	dxdy    float64 // products with that of the time per token,
	squares float64 // and squares of what remains unexplained
	answers float64 // in these sums
	output  float64 // mean tokens of an answer
	outputs float64 // answers in it
	length  float64 // output, as lists have it: see levelStep
	margin  float64 // by how much the levels of two endpoints may differ by chance
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
	seen    float64 // answers, minPacedAnswers at most
	answers float64 // in the means, as of lastAt
	load    float64 // mean logarithm of the requests in flight
	log     float64 // mean logarithm of the time per token, less that of its kind
	lastAt  time.Duration
	level   float64 // log at no load, as lists have it: see levelStep
	known   float64 // which part of the level counts, in quarters: 0 unknown, 1 all of it
}

const (
	// pacedAnswers is how many answers the pace of an endpoint is a mean of.
	pacedAnswers = 32
	// paceFades is the time constant with which answers count for less. An endpoint that is not asked any more because
	// it was slow is known less and less, and is tried again.
	paceFades = 30 * time.Second
	// minPacedAnswers is from how many answers on what an endpoint shows is known in full; half as many show nothing.
	minPacedAnswers = 8
	// minPacedTokens is the shortest answer whose time per token means something.
	minPacedTokens = 8
	// maxPacedTokens bounds the tokens of an answer in the mean length: a batch of prompts has one usage for all of
	// its answers, and an engine may report any number.
	maxPacedTokens = 8192
	// maxLengthFactor bounds what one answer counts for in the mean length, as a multiple of the mean.
	maxLengthFactor = 4
	// maxSurprise bounds by how much one answer may differ from what is expected of it, as a logarithm.
	maxSurprise = math.Ln2
	// maxLog bounds logarithms of times, and maxLogLoad those of loads: no answer comes near.
	maxLog, maxLogLoad = 64, 16
	// pooledAnswers is how many answers of all endpoints show what load adds, and how much answers differ.
	pooledAnswers = 512
	// minSlope is the least sum of squares of loads that shows what load adds.
	minSlope = 1
	// assumedAnswers and assumedVariance are what is assumed of how much answers differ before there are any.
	assumedAnswers, assumedVariance = 32, 0.1
	// maxKinds bounds the kinds of answers.
	maxKinds = 64
	// equalPace is the ratio of times up to which endpoints count as equally fast, and unequalPace that from which on
	// they are as unequal as they seem.
	equalPace, unequalPace = 1.15, 1.4
	// maxPaceRatio bounds how much slower than the fastest an endpoint counts, and maxLead how much faster than the
	// next one that counts: one that says wrong numbers must not draw all requests.
	maxPaceRatio, maxLead = 8, 2
	// levelStep is the ratio by which the mean length has to change, and its root that by which a time per token has
	// to, until lists change: stores know a list already that stays the same.
	levelStep = 1.15
	// outputCost is the cost of the time that one output token takes, in tokens of a prompt. That is as long as 100
	// tokens of a prompt take (H200: 4.3 ms and 41 µs) to 200, but the client reads meanwhile: a tenth of it counts.
	// The value was found by simulation, in e2e/bench/placement; 8 and 24 give nearly the same.
	outputCost = 12
	// turnCost is what each output token of a running request costs the request that waits for its slot: half of
	// outputCost, since half of that answer has been generated on average.
	turnCost = outputCost / 2
)

// observe learns from an answer.
func (p *paces) observe(now time.Duration, o *lb.Outcome) {
	a := pacedAnswer{tokens: o.OutputTokens}
	if o.PerToken > 0 && o.OutputTokens >= minPacedTokens {
		a.addr, a.kind = o.Addr, answerKind{o.Model, o.Streamed}
		a.load, a.log = min(math.Log1p(max(0, o.Load)), maxLogLoad), math.Log(o.PerToken.Seconds())
	}
	if a.tokens > 0 {
		p.sharedTimes.observe(now, &a)
	}
}

// learn learns from an answer. Without an address it is one whose time per token means nothing.
func (p *paceState) learn(now time.Duration, a *pacedAnswer) {
	p.learnedAt = max(p.learnedAt+1, now)
	p.addLength(a.tokens)
	if a.addr == "" {
		return
	}
	e := p.endpoints[a.addr]
	if e == nil {
		e = &pace{lastAt: now, load: a.load}
		if p.endpoints == nil {
			p.endpoints = map[string]*pace{}
		}
		p.endpoints[a.addr] = e
	}
	k := p.kinds[a.kind]
	if k == nil { // the first of its kind shows what the kind takes, and so nothing of the endpoint
		log := a.log - e.log - p.slope()*(a.load-e.load)
		p.addKind(now, a.kind, &kindPace{log: boundedLog(log), answers: 1, lastAt: now})
		return
	}
	e.answers, e.lastAt = e.answersAt(now)+1, max(now, e.lastAt)
	dx := a.load - e.load
	rest := a.log - k.log - e.log - p.slope()*dx
	if e.seen++; e.seen > minPacedAnswers {
		e.seen = minPacedAnswers
		rest = min(max(rest, -maxSurprise), maxSurprise)
		p.pool(dx, rest)
	}
	k.answers, k.lastAt = min(k.answers+1, pooledAnswers), max(now, k.lastAt)
	k.log = boundedLog(k.log + rest/k.answers/2)
	e.answers = min(e.answers, pacedAnswers)
	e.load += dx / e.answers
	e.log = boundedLog(e.log + (rest+p.slope()*dx)/e.answers)
}

func boundedLog(v float64) float64 { return min(max(v, -maxLog), maxLog) }

// before orders kinds.
func (k answerKind) before(o answerKind) bool {
	return k.model < o.model || k.model == o.model && !k.streamed && o.streamed
}

// addKind adds a kind of answers. One that had few of them, or none for long, makes room for it: kinds that one client
// makes up, each seen once, do not take the place of those that others use.
func (p *paceState) addKind(now time.Duration, kind answerKind, k *kindPace) {
	if len(p.kinds) >= maxKinds {
		var idlest answerKind
		longest := -1.0
		for other, k := range p.kinds {
			idle := float64(max(0, now-k.lastAt)+1) / k.answers
			if idle > longest || idle == longest && other.before(idlest) {
				idlest, longest = other, idle
			}
		}
		delete(p.kinds, idlest)
	}
	if p.kinds == nil {
		p.kinds = map[answerKind]*kindPace{}
	}
	p.kinds[kind] = k
}

// addLength adds the length of an answer to the mean.
func (p *paceState) addLength(tokens int64) {
	if tokens <= 0 {
		return
	}
	n := float64(min(tokens, maxPacedTokens))
	if p.outputs >= minPacedAnswers {
		n = min(n, maxLengthFactor*p.output)
	}
	p.outputs = min(p.outputs+1, pooledAnswers)
	p.output += (n - p.output) / p.outputs
}

// pool adds an answer of an endpoint that is known to what is learned of all: by how much its load differs from the
// endpoint's mean, and what remains unexplained.
func (p *paceState) pool(dx, rest float64) {
	dy := rest + p.slope()*dx
	p.answers = min(p.answers+1, pooledAnswers)
	keep := 1 - 1/p.answers
	p.dxdx, p.dxdy = p.dxdx*keep+dx*dx, p.dxdy*keep+dx*dy
	p.squares = p.squares*keep + rest*rest
}

// slope returns by how much the logarithm of the time per token grows with that of the load, from 0 to 1: an engine
// that serves twice as many takes twice as long at most.
func (p *paceSums) slope() float64 { return min(max(p.dxdy/(p.dxdx+minSlope), 0), 1) }

// variance returns how much answers differ from what is expected of them, as logarithms.
func (p *paceSums) variance() float64 {
	return (p.squares + assumedAnswers*assumedVariance) / (p.answers + assumedAnswers)
}

// answersAt returns how many answers the means are over, as far as these still count.
func (e *pace) answersAt(now time.Duration) float64 {
	return e.answers * math.Exp(-float64(max(0, now-e.lastAt))/float64(paceFades))
}

// update has what lists are made of follow what was learned, once per summaryInterval.
func (p *paces) update(now time.Duration) {
	if p.outputs == 0 || p.updatedAt > 0 && now-p.updatedAt < summaryInterval {
		return
	}
	p.updatedAt = now
	if p.settle(now) {
		p.version++
	}
}

// settle has what lists are made of follow what was learned, and returns whether any of it has changed.
func (p *paceState) settle(now time.Duration) (changed bool) {
	set := func(at *float64, to float64) {
		changed = changed || *at != to
		*at = to
	}
	if p.output > p.length*levelStep || p.output < p.length/levelStep {
		set(&p.length, lb.RoundDigits(p.output, 4))
	}
	set(&p.margin, lb.RoundDigits(2*math.Sqrt(p.variance()/pacedAnswers), 1))
	slope := p.slope()
	for _, e := range p.endpoints {
		if e.seen < minPacedAnswers {
			continue
		}
		const few = minPacedAnswers / 2
		set(&e.known, min(max(math.Floor(e.answersAt(now)-few), 0)/few, 1))
		if level := e.log - slope*e.load; math.Abs(level-e.level) > math.Log(levelStep)/2 {
			set(&e.level, level)
		}
	}
	return changed
}

// fastest returns the level with which those of the candidates are compared, +Inf for none: the lowest, but not by more
// than maxLead below the next one.
func (p *paces) fastest(cs []lb.Candidate) float64 {
	lowest, next := math.Inf(1), math.Inf(1)
	for i := range cs {
		if e := p.endpoints[cs[i].Addr]; e != nil && e.known > 0 {
			lowest, next = min(lowest, e.level), min(next, max(lowest, e.level))
		}
	}
	if next == math.Inf(1) {
		return lowest
	}
	return max(lowest, next-math.Log(maxLead))
}

// moreTime returns how much more time than the fastest an endpoint takes, as a share, given by how much the logarithms
// surely differ: nothing up to equalPace.
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
// capacity at a time, and each of which is an answer long. A turn is charged queue times. All these costs are
// multiplied by weight.
//
// Before answers were seen the candidates stay as they are.
func (c *Tracker) Paced(now time.Duration, l lb.List, queue, weight float64) lb.List {
	p := &c.paces
	p.pending.used = true
	if p.update(now); p.length == 0 {
		return l
	}
	key := lb.Mix(lb.Mix(p.version^math.Float64bits(queue)) ^ math.Float64bits(weight))
	return p.lists.Get(now, l, key, func(cs []lb.Candidate) []lb.Candidate {
		out, fastest := slices.Clone(cs), p.fastest(cs)
		for i := range out {
			o := &out[i]
			if e := p.endpoints[o.Addr]; e != nil && e.known > 0 {
				o.Base += weight * outputCost * p.length * e.known * moreTime(e.level-fastest-p.margin)
			}
			if o.OverSlope > 0 { // for each weight, as the rest of its load
				o.OverSlope = lb.RoundDigits(weight*queue*turnCost*p.length*o.Weight/max(1, o.Capacity), 8)
			}
		}
		return out
	})
}
