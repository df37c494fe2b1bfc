// Package push learns how many requests an engine may be given, so that what it would queue waits in the gateway.
package push

import (
	"math"
	"slices"
	"time"

	"github.com/warmgate/warmgate/internal/recent"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/engines"
)

const (
	// firstLimit is the push limit of an endpoint of which nothing is known.
	firstLimit = 16
	// reachedShare is the share of a limit from which on it counts as reached: a slot that has just become free is
	// filled a moment later.
	reachedShare = 0.9
	// raiseShare is the largest raise of a limit that was too high before, as a share of it.
	raiseShare = 1.0 / 8
	// maxLimitsAge is how often lists follow what changes with time alone.
	maxLimitsAge = time.Second
	// unusedEndpointTTL is how long a limit is remembered of an endpoint that no list has.
	unusedEndpointTTL = 10 * time.Minute
	// maxLimitedCandidates bounds the lists that are kept, by the candidates in all of them.
	maxLimitedCandidates = 1 << 16
	// firstRaiseShare is the raise of a limit that was never too high. It is large, because what an engine could run
	// meanwhile waits in the gateway.
	firstRaiseShare = 1.0 / 2
)

// Limits learns the push limits of one cluster's endpoints: how many requests in flight an engine runs without that
// one waits in its own queue. They come from engine samples (samples.go), and where there is no fresh one, from
// answers (answers.go, search.go). An endpoint always has a limit: the one that was learned last holds until
// there is evidence of another one. One VM has one per cluster, shared by all its policies, so that it survives a
// change of the configuration. With Exchange all VMs learn together (exchange.go).
type Limits struct {
	endpoints  map[string]*endpointLimit // by address
	engines    *engines.Samples          // from whose samples it learns, nil for none
	pending    pendingEvidence           // while it learns together with other VMs
	staleAfter time.Duration             // age above which a sample does not count
	ahead      float64                   // requests beyond the limit that may wait in an engine
	version    uint64                    // changes with every published limit
	lists      *recent.Cache[limitedKey, limitedList]
	ranked     bool    // ranks of endpoints are up to date
	longest    float64 // mean duration of answers in seconds, of the endpoint where it is longest
	sweptAt    time.Duration
}

// limitedKey is what a list with push limits is made from: another one, by its digest, and how many requests beyond its
// limit an endpoint may have at hand.
type limitedKey struct {
	source uint64
	ahead  int
}

// limitedList is a list of candidates with push limits.
type limitedList struct {
	list       lb.List
	version    uint64 // of the limits
	validUntil time.Duration
}

// endpointLimit is what is known of one endpoint. A limit that one source has learned is where the other one goes on.
type endpointLimit struct {
	addr       string
	limit      float64
	rank       int           // see Limits.rank
	step       float64       // of the next raise by a sample; 0 while the limit was never too high
	raised     float64       // limit that a sample has raised last, 0 for none
	fewer      int64         // samples in a row that reached the limit although fewer ran
	rest       int64         // samples that reach the limit until one raises it again
	rests      int64         // the latest number of them
	published  int64         // the limit as candidates have it
	proven     float64       // limit that samples have shown not to be too high, 0 for none
	lastQueued float64       // requests that waited in the engine at the latest sample
	learnedAt  time.Duration // time of the latest sample that was learned from
	page       seenPage      // the latest page that was learned from, and when it was first read
	pageAt     time.Duration
	freshAt    time.Duration // when the latest sample was last known to be up to date
	sampled    bool          // there is a fresh sample that shows how full the engine is
	usedAt     time.Duration
	search     search
	peers      peers
}

// New returns the limits of a cluster of which nothing is known. They learn from the samples of its engines,
// nil for none.
func New(engines *engines.Samples) *Limits {
	l := &Limits{
		endpoints: map[string]*endpointLimit{}, engines: engines, version: 1,
		lists: recent.New[limitedKey, limitedList](maxLimitedCandidates, lb.UnusedListTTL),
	}
	if engines != nil {
		engines.OnUpdate = l.samplesCame
	}
	return l
}

// Configure sets the age above which a sample does not count, and how many requests beyond its limit an endpoint may
// have at hand.
func (l *Limits) Configure(staleAfter time.Duration, ahead int) {
	l.staleAfter, l.ahead = staleAfter, float64(ahead)
}

// Limit returns how many requests in flight the endpoint takes at most, and whether that is known.
func (l *Limits) Limit(addr string) (n int64, known bool) {
	p := l.endpoints[addr]
	if p == nil {
		return 0, false
	}
	return p.published, true
}

// Apply returns the candidates with their push limits as caps, where those are tighter. ahead is how many requests
// beyond its limit an endpoint may have at hand.
func (l *Limits) Apply(now time.Duration, source lb.List, ahead int) lb.List {
	if len(source.Candidates) == 0 {
		return source
	}
	l.ahead, l.pending.used = float64(ahead), true
	key := limitedKey{source.Digest(), ahead}
	known, ok := l.lists.Get(now, key)
	if ok && known.version == l.version && now < known.validUntil {
		return known.list
	}
	l.sweep(now)
	out := lb.NewList(l.withCaps(now, source.Candidates, int64(ahead)))
	l.lists.PutSized(now, key, limitedList{out, l.version, now + maxLimitsAge}, lb.CachedSize(out))
	return out
}

// Observe learns from a good answer: from a streamed one when it has begun and when it has ended, from any other when
// it has ended. Times may be those of ticks: only their means count.
func (l *Limits) Observe(now time.Duration, a Answer) {
	if seconds := (now - a.PlacedAt).Seconds(); l.pending.together {
		l.pending.add(a, seconds)
	} else {
		l.learn(now, &a, seconds)
	}
}

// learn learns from an answer in that many seconds.
func (l *Limits) learn(now time.Duration, a *Answer, seconds float64) {
	p := l.endpoint(now, a.Addr)
	s := &p.search
	if !a.Begun {
		s.ended = min(s.ended+1, meanAnswers)
		s.took += (seconds - s.took) / float64(s.ended)
	}
	l.refresh(now, p)
	if !a.Streamed {
		l.learnAnswer(now, p, a, seconds)
	}
	l.publish(now, p)
}

// meanAnswers is how many answers the mean duration is over.
const meanAnswers = 64

// withCaps returns a copy of the candidates with their limits.
func (l *Limits) withCaps(now time.Duration, cs []lb.Candidate, ahead int64) []lb.Candidate {
	l.findLongest()
	out := slices.Clone(cs)
	for i := range out {
		c := &out[i]
		p := l.endpoint(now, c.Addr)
		l.refresh(now, p)
		l.publish(now, p)
		if n := p.published + ahead; c.Cap <= 0 || n < c.Cap {
			c.Cap = n
		}
	}
	return out
}

// findLongest finds how long answers take where they take longest.
func (l *Limits) findLongest() {
	l.longest = 0
	for _, p := range l.endpoints {
		l.longest = max(l.longest, p.search.took)
	}
}

// endpoint returns what is known of an endpoint that is in use.
func (l *Limits) endpoint(now time.Duration, addr string) *endpointLimit {
	p := l.endpoints[addr]
	if p == nil {
		p = &endpointLimit{
			addr: addr, limit: firstLimit, published: firstLimit, search: search{step: firstStep, lower: true},
		}
		l.endpoints[addr] = p
		l.version++
		l.ranked = false
	}
	p.usedAt = now
	return p
}

// refresh notes what has changed with time.
func (l *Limits) refresh(now time.Duration, p *endpointLimit) {
	if p.search.overdue(now) {
		p.search.stop(now)
	}
	if now-p.freshAt > l.staleAfter {
		p.lose(now)
	}
}

// lose notes that samples have become stale. The limit is what they have shown to fit: a raise that they have not
// confirmed is taken back.
func (p *endpointLimit) lose(now time.Duration) {
	if !p.sampled {
		return
	}
	p.sampled = false
	if p.proven > 0 {
		p.limit = min(p.limit, p.proven)
		p.search.settle()
	}
	p.search.restart(now)
}

// publish has candidates get the limit as it is now.
func (l *Limits) publish(now time.Duration, p *endpointLimit) {
	n := p.limit
	if p.search.above > 0 {
		n = p.search.above
	} else if l.holdsBack(now, p) {
		n = p.lowerLimit()
	}
	if n := max(1, int64(n)); n != p.published {
		p.published = n
		l.version++
	}
}

// sweep deletes endpoints that no list has had for long.
func (l *Limits) sweep(now time.Duration) {
	if now-l.sweptAt < lb.UnusedListTTL/10 {
		return
	}
	l.sweptAt = now
	for addr, p := range l.endpoints {
		if now-p.usedAt > unusedEndpointTTL {
			delete(l.endpoints, addr)
			l.ranked = false
		}
	}
}

// raise raises the limit, to most at most: by half while it was never too high, later by steps that double while it is
// not. A limit above which the engine has queued again and again is raised seldom: each try has a request wait inside
// it, and what is tried when metrics stall holds until the last page is stale.
func (p *endpointLimit) raise(most float64) {
	limit, step := math.Floor(p.limit), p.step
	if limit != p.raised {
		p.raised, p.rest, p.rests = limit, 0, 0
	}
	if p.rest > 0 {
		p.rest--
		return
	}
	if step == 0 {
		step = limit * firstRaiseShare
	} else {
		p.step = min(2*step, max(1, limit*raiseShare))
	}
	p.limit = limit + math.Floor(max(0, min(step, most-limit)))
}

// lower lowers the limit part of the way to what fits. Later raises are small.
func (p *endpointLimit) lower(fit float64) {
	p.step = 1
	p.limit += min(0, max(1, fit)-p.limit) * lowerGain
}

// restAfter has the next raise wait if the limit has just come down, from the one before, to what was raised last: that
// raise was in vain. Each one in vain doubles the wait.
func (p *endpointLimit) restAfter(before float64) {
	if limit := math.Floor(p.limit); limit == p.raised && limit < math.Floor(before) {
		p.rests = min(max(2*p.rests, 2), sampledRest)
		p.rest = p.rests
	}
}
