package push

import (
	"math"
	"time"
)

// Endpoints of a cluster are mostly equal engines. So what answers of one show is an experiment for the others: where
// one runs more requests than another one may, either those are worth their wait, and the other one follows, or they
// are not, and the two meet in the middle. An endpoint at which the limit of another one is too high is left alone for
// a while: it is another kind of engine.
const (
	// peerShare is by which factor limits differ before one follows another. With less, engines that differ by a third
	// follow each other, too.
	peerShare = 1.25
	// peerAnswers is how many answers of each of two endpoints show which of their limits is better, if one is twice as
	// high as the other. The less they differ the more it takes.
	peerAnswers = 12
	// mostPeerAnswers is from how many on older ones count for less.
	mostPeerAnswers = 128
	// peerIdle is after which time without an answer an endpoint shows nothing itself.
	peerIdle = 10 * time.Second
	// alike is by which factor times at the same number of requests differ at most, of equal engines.
	alike = 1.2
	// firstAlone and mostAlone are for how long an endpoint is left alone, the first time and later ones.
	firstAlone, mostAlone = time.Minute, time.Hour
)

// peers is what an endpoint has to do with others.
type peers struct {
	answers window        // the latest ones
	lately  point         // what those before have shown, zero for unknown
	warmAt  time.Duration // when the first answer had ended: what was placed before has found an idle engine
	seenAt  time.Duration // when the latest answer came, 0 for never
	follows string        // address of the endpoint whose limit is tried, empty for none
	alone   time.Duration // until when the endpoint is left alone
	rests   time.Duration // for how long it was
}

// consult learns from an answer how long requests wait at an endpoint, and compares it with the one whose limit differs
// most.
func (l *Limits) consult(now time.Duration, p *endpointLimit, a *Answer, seconds float64) {
	if p.peers.seenAt = now; p.search.above > 0 {
		return
	}
	if p.peers.warmAt == 0 {
		p.peers.warmAt = now
	}
	if a.PlacedAt < p.peers.warmAt {
		return
	}
	w := &p.peers.answers
	w.add(now, a, seconds)
	if int(w.n)%peerAnswers > 0 || (now-w.began).Seconds() < p.search.took {
		return
	}
	p.peers.lately = w.point(p.search.took)
	p.peers.lately.inflight = max(1, p.peers.lately.inflight-l.ahead)
	if other := l.peerOf(now, p); other != nil {
		low, high := p, other
		if low.limit > high.limit {
			low, high = high, low
		}
		l.level(now, low, high)
	}
	if w.n >= mostPeerAnswers {
		w.halve()
	}
}

// tells reports whether so many answers show which of two numbers of requests in flight is better.
func tells(answers, fewer, more float64) bool { return answers*min(1, more/fewer-1) >= peerAnswers }

// peerOf returns the endpoint whose limit differs most from that of p, nil for none.
func (l *Limits) peerOf(now time.Duration, p *endpointLimit) (other *endpointLimit) {
	if !p.isPeer(now) {
		return nil
	}
	most, limit := peerShare, math.Floor(p.limit)
	for _, q := range l.endpoints {
		of := math.Floor(q.limit)
		d := max(of/limit, limit/of)
		if q != p && q.isPeer(now) && (d > most || d == most && other != nil && l.rank(q) < l.rank(other)) {
			other, most = q, d
		}
	}
	return other
}

// isPeer reports whether the endpoint learns from others, and others from it. What samples have shown, which say more,
// stays.
func (p *endpointLimit) isPeer(now time.Duration) bool {
	return p.proven == 0 && !p.sampled && p.search.above == 0 && now >= p.peers.alone
}

// level brings two limits together, if more requests run under the higher one than may under the lower one.
func (l *Limits) level(now time.Duration, low, high *endpointLimit) {
	limit, runs := math.Floor(low.limit), min(high.peers.lately.inflight, high.limit)
	if runs <= peerShare*limit || !tells(high.peers.answers.n, limit, runs) {
		return
	}
	switch q := &low.peers; {
	case peerShare*q.lately.inflight >= runs: // under its limit of before it ran as many
		if !q.lately.isLike(&high.peers.lately) {
			low.leaveAlone(now)
		}
		return
	case q.lately.inflight > 0 && !tells(q.answers.n, limit, runs):
		return
	case q.lately.inflight > 0 && q.lately.fuller(&high.peers.lately) > 0:
		l.meet(now, low, high)
		return
	case q.lately.inflight == 0 && now-q.seenAt < peerIdle && q.seenAt > 0: // it will soon show something itself
		return
	}
	s := &low.search
	low.peers.follows = high.addr
	s.above, s.triedAt, s.step = math.Round(runs), now, min(s.step, checkStep)
	s.restart(now)
	l.publish(now, low)
}

// meet lowers the higher of two limits, beyond which requests wait too long, to what is between them.
func (l *Limits) meet(now time.Duration, low, high *endpointLimit) {
	s, limit := &high.search, math.Floor(low.limit)
	between := math.Floor(math.Sqrt(limit * high.peers.lately.inflight)) // bisection, of what grows by factors
	high.limit = max(1, min(math.Floor(high.limit), max(limit, between)))
	high.peers.lately, high.peers.answers = point{}, window{}
	s.known, s.step, s.lower, s.rest, s.full, s.above = point{}, min(s.step, checkStep), false, 0, false, 0
	s.restart(now)
	l.publish(now, high)
}

// followed ends the try of another endpoint's limit, which was worth its wait or not. If it was not although requests
// take as long there, it is not for the other one either.
func (l *Limits) followed(now time.Duration, p *endpointLimit, q *point, worth bool) {
	of := &p.peers
	high := l.endpoints[of.follows]
	of.follows, of.lately, of.answers = "", point{}, window{}
	if worth {
		of.rests = 0
		return
	}
	switch {
	case high == nil || high.peers.lately.inflight == 0: // it has left, or was lowered meanwhile
	case q.isLike(&high.peers.lately):
		l.meet(now, p, high)
	default:
		p.leaveAlone(now)
	}
}

// isLike reports whether requests take about as long, at about the same number in flight.
func (p *point) isLike(q *point) bool {
	return math.Abs(math.Log((q.wait+q.rest)/(p.wait+p.rest))) < math.Log(alike)
}

// leaveAlone has the endpoint not learn from others for a while.
func (p *endpointLimit) leaveAlone(now time.Duration) {
	q := &p.peers
	q.rests = min(max(2*q.rests, firstAlone), mostAlone)
	q.alone = now + q.rests
}
