package push

import (
	"math"
	"time"

	"github.com/warmgate/warmgate/internal/order"
)

// The search for the limit from answers alone is a pattern search (Hooke and Jeeves, "Direct search solution of
// numerical and statistical problems", 1961). A lower limit and a higher one are tried, first half of the limit away;
// one that is better holds. When neither is, the steps become half as large. What is better is told by Kleinrock's
// power ("Power and deterministic rules of thumb", 1979), the requests in flight over the square of the time that each
// takes: below what the engine runs at once, more of them hardly take longer; above it the time grows as their number
// does.
const (
	// firstStep and lastStep are by which share of it a limit is changed for a try, at first and in the end. checkStep
	// is the same where a limit that was found is checked after checkEvery.
	firstStep, checkStep, lastStep = 1.0 / 2, 1.0 / 4, 1.0 / 8

	checkEvery = 5 * time.Minute
	// windowAnswers is how many answers it takes to judge a limit, times the step.
	windowAnswers = 8
	// slowed is how much longer answers take at the limit that holds, as a logarithm, for the search to begin again;
	// half of it will do if that is so twice in a row.
	slowed = 0.5
	// firstRest and maxRest are how many windows pass until a higher limit is tried that was too high before. After
	// sampledRest a limit is tried above the one that samples have shown.
	firstRest, sampledRest, maxRest = 4, 16, 32
	// turnLength is how long an endpoint holds back at least when it is its turn, one of at most mostTurns. In
	// turnAnswers times the time of an answer those are gone that were placed before.
	turnLength, mostTurns, turnAnswers = 5 * time.Second, 8, 3
	// tryAnswers is how many times the time of an answer a higher limit is tried at most, and minTry the least time.
	tryAnswers, minTry = 16, time.Minute
)

// search looks for the limit from which on answers of an endpoint wait in its engine.
type search struct {
	took      float64       // mean duration of answers in seconds
	ended     int64         // count of them
	changedAt time.Duration // when another limit began to hold: what was placed before does not count
	at, below window        // of answers at the limit that holds, or at the one above it that is tried; and below it
	known     point         // at the limit that holds, zero for unknown

	step    float64       // share of the limit
	lower   bool          // a lower limit is to be tried
	tooHigh bool          // a limit one step above is known to be too high
	full    bool          // the limit was reached in the latest window
	slower  bool          // answers took longer in that, but not by much
	above   float64       // higher limit that is tried, 0 for none
	triedAt time.Duration // when that began
	rest    int64         // windows until the next one is tried
	rests   int64         // the latest number of them
	check   int64         // number of the present checkEvery
}

// learnAnswer learns from an answer in that many seconds. While there is a fresh sample, which says more, the limit
// does not change.
func (l *Limits) learnAnswer(now time.Duration, p *endpointLimit, a *Answer, seconds float64) {
	s := &p.search
	if a.PlacedAt < s.changedAt || s.ended == 0 || !a.Begun && (now-s.changedAt).Seconds() < 2*s.took {
		return // answers in one piece that end first are shorter than others
	}
	limit, inflight := math.Floor(p.limit), float64(a.Inflight)-l.ahead
	if inflight > max(limit, s.above)+1 {
		return // it was placed under another limit
	}
	s.beginCheck(now)
	l.consult(now, p, a, seconds)
	limit = math.Floor(p.limit)
	switch {
	case s.above == 0 && limit > 1 && inflight <= (limit+p.lowerLimit())/2:
		if s.below.add(now, a, seconds); s.enough(now, &s.below) {
			p.judgeLower(now, l.ahead)
		}
	default:
		s.at.add(now, a, seconds)
		if !s.enough(now, &s.at) && !(p.peers.follows != "" && tells(s.at.n, limit, s.above)) {
			return
		}
		if s.above > 0 {
			l.judgeHigher(now, p)
		} else {
			p.judge(now, l.ahead)
		}
	}
}

// enough reports whether the answers of a window show something. They are those of one answer's time at least: those
// that come together have waited together.
func (s *search) enough(now time.Duration, w *window) bool {
	return w.n >= windowAnswers/s.step && (now-w.began).Seconds() >= s.took
}

// beginCheck has a lower limit be tried every checkEvery.
func (s *search) beginCheck(now time.Duration) {
	n := int64(now / checkEvery)
	if s.check > 0 && s.check != n && !s.lower {
		s.lower, s.tooHigh, s.step, s.below = true, true, max(s.step, checkStep), window{}
	}
	s.check = n
}

// judge learns how long answers take at the limit that holds.
func (p *endpointLimit) judge(now time.Duration, ahead float64) {
	s := &p.search
	q := s.at.point(s.took)
	s.full = s.at.most-ahead >= reachedShare*math.Floor(p.limit)
	s.at = window{}
	more := 0.0
	if s.known.inflight > 0 && s.full && !p.sampled {
		more = s.known.fuller(&q)
	}
	again := s.slower
	s.slower = more > slowed/2
	switch {
	case more > slowed || s.slower && again:
		s.step, s.lower, s.tooHigh, s.slower, s.known, s.below = firstStep, true, true, false, point{}, window{}
	case s.slower: // the next window will show whether it was chance
		return
	}
	s.known.follow(&q)
	s.lower = s.lower && p.limit >= 2 // below 1 there is nothing to try
	if !s.full || p.sampled || s.lower {
		return
	}
	if s.rest--; s.rest <= 0 {
		p.tryHigher(now)
	}
}

// tryHigher has a higher limit hold for a while.
func (p *endpointLimit) tryHigher(now time.Duration) {
	n := math.Floor(p.limit)
	p.search.above, p.search.triedAt, p.peers.follows = n+max(1, math.Floor(n*p.search.step)), now, ""
	p.search.restart(now)
}

// judgeHigher ends the try of a higher limit. If answers hardly took longer, the next is one higher still.
func (l *Limits) judgeHigher(now time.Duration, p *endpointLimit) {
	s := &p.search
	q := s.at.point(s.took)
	most, follows, known := s.at.most-l.ahead, p.peers.follows != "", s.known
	if follows {
		known = p.peers.lately
	}
	worth := q.inflight > known.inflight && (known.inflight == 0 || known.fuller(&q) <= 0)
	if follows {
		l.followed(now, p, &q, worth)
	}
	if worth {
		reached := most >= reachedShare*s.above
		p.limit, s.known, s.rests = max(math.Floor(p.limit), min(s.above, most)), q, 0
		if reached && !follows {
			p.tryHigher(now)
			return
		}
		s.above = 0
		s.restart(now)
		return
	}
	if s.above = 0; p.limit < 2 { // there is no smaller step
		s.step = lastStep
	}
	s.narrow()
	s.restart(now)
}

// lowerLimit returns the limit that holds in an endpoint's turns while a lower one is to be tried.
func (p *endpointLimit) lowerLimit() float64 {
	n := math.Floor(p.limit)
	return max(1, min(n-1, math.Ceil(n*(1-p.search.step))))
}

// judgeLower judges by answers to requests that found fewer in flight, in the endpoint's turns or by chance.
func (p *endpointLimit) judgeLower(now time.Duration, ahead float64) {
	s := &p.search
	q := s.below.point(s.took)
	s.below = window{}
	switch {
	case !s.lower || !s.full || p.sampled || s.known.inflight == 0:
	case q.fuller(&s.known) > 0:
		p.limit, s.known, s.tooHigh = max(p.lowerLimit(), math.Round(q.inflight-ahead)), q, true
		s.restart(now)
	case s.tooHigh:
		s.narrow()
	default:
		s.lower = false
	}
}

// narrow makes steps half as large, the lower one first. After the last one the limit holds for a while.
func (s *search) narrow() {
	if s.step > lastStep {
		s.step, s.lower, s.tooHigh = s.step/2, true, false
		return
	}
	s.rests = min(max(2*s.rests, firstRest), maxRest)
	s.rest, s.lower = s.rests, false
}

// settle has the limit hold for a while as one that was found.
func (s *search) settle() {
	s.step, s.lower, s.rest, s.rests = lastStep, false, sampledRest, sampledRest
}

// restart has answers to what was placed before count no more.
func (s *search) restart(now time.Duration) { s.changedAt, s.at, s.below = now, window{}, window{} }

// stop ends the try of a higher limit without a judgement.
func (s *search) stop(now time.Duration) {
	if s.above > 0 {
		s.above = 0
		s.restart(now)
	}
}

// overdue reports whether the try of a higher limit has shown nothing for long.
func (s *search) overdue(now time.Duration) bool {
	d := now - s.triedAt
	return s.above > 0 && d > minTry && d.Seconds() > tryAnswers*s.took
}

// holdsBack reports whether a lower limit is to hold now.
func (l *Limits) holdsBack(now time.Duration, p *endpointLimit) bool {
	return p.search.lower && p.search.full && !p.sampled && l.hasTurn(now, p)
}

// hasTurn reports whether it is an endpoint's turn. Turns follow from the time and the addresses, so that they are the
// same in all workers: of mostTurns endpoints it is never the turn of two.
func (l *Limits) hasTurn(now time.Duration, p *endpointLimit) bool {
	length := turnLength
	for length.Seconds() < turnAnswers*l.longest && length < checkEvery {
		length *= 2
	}
	turns := max(2, min(len(l.endpoints), mostTurns))
	return int(now/length)%turns == l.rank(p)%turns
}

// rank returns the number of an endpoint in the order of addresses.
func (l *Limits) rank(p *endpointLimit) int {
	if !l.ranked {
		for i, addr := range order.Keys(l.endpoints) {
			l.endpoints[addr].rank = i
		}
		l.ranked = true
	}
	return p.rank
}
