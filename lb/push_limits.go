package lb

import (
	"math"
	"slices"
	"time"
)

const (
	// firstPush is the push limit of an endpoint of which nothing is known.
	firstPush = 16
	// reachedShare is the share of a limit from which on it counts as reached: a slot that has just become free is
	// filled a moment later.
	reachedShare = 0.9
	// raiseShare is the largest raise of a limit that was too high before, as a share of it.
	raiseShare = 1.0 / 8
	// firstRaiseShare is the raise of a limit that was never too high. It is large, because what an engine could run
	// meanwhile waits in the gateway.
	firstRaiseShare = 1.0 / 2
)

// PushLimits learns the push limits of one cluster's endpoints: how many requests in flight an engine runs without that
// one waits in its own queue. They come from engine samples (push_samples.go), and where there is no fresh one, from
// the time to first token (push_ttft.go). One VM has one per cluster, shared by all its policies, so that it survives a
// change of the configuration.
type PushLimits struct {
	endpoints  map[string]*pushLimit // by address
	staleAfter time.Duration         // age above which a sample does not count
	ahead      float64               // requests beyond the limit that may wait in an engine
	version    uint64                // changes with every published limit
	lists      map[derivedKey[int]]*limitedList
	candidates int // in all lists
	pool       listPool
	sweptAt    time.Duration
}

// limitedList is a list of candidates with push limits.
type limitedList struct {
	result     []Candidate
	version    uint64
	validUntil time.Duration
	lastUsed   time.Duration
}

// pushLimit is what is known of one endpoint. A limit that one source has learned is where the other one goes on.
type pushLimit struct {
	limit      float64
	step       float64       // of the next raise; 0 while the limit was never too high
	published  int64         // the limit as candidates have it, 0 for none
	lastQueued float64       // requests that waited in the engine at the latest sample
	learnedAt  time.Duration // time of the latest sample that was learned from
	freshAt    time.Duration // when the latest sample was last known to be up to date, 0 for none
	usedAt     time.Duration
	ttft       ttftMeans
}

// NewPushLimits returns the limits of a cluster of which nothing is known. They learn from the samples of its engines,
// nil for none.
func NewPushLimits(engines *Engines) *PushLimits {
	l := &PushLimits{endpoints: map[string]*pushLimit{}, lists: map[derivedKey[int]]*limitedList{}, version: 1}
	if engines != nil {
		engines.limits = l
	}
	return l
}

// Limit returns how many requests in flight the endpoint takes at most, and whether it has a limit: one that is not
// known yet, or of which nothing can be learned, has none.
func (l *PushLimits) Limit(addr string) (n int64, known bool) {
	p := l.endpoints[addr]
	if p == nil || p.published == 0 {
		return 0, false
	}
	return p.published, true
}

// Apply returns the candidates with their push limits as caps, where those are tighter. ahead is how many requests
// beyond its limit an endpoint may have at hand. The result is shared, and stays at the same address while its content
// is the same.
func (l *PushLimits) Apply(now time.Duration, cs []Candidate, ahead int) []Candidate {
	if len(cs) == 0 {
		return cs
	}
	l.ahead = float64(ahead)
	key := derivedKey[int]{&cs[0], len(cs), ahead}
	list := l.lists[key]
	if list != nil && list.version == l.version && now < list.validUntil {
		list.lastUsed = now
		return list.result
	}
	l.sweep(now)
	if list == nil {
		list = l.addList(key)
	}
	out := l.withCaps(now, cs, int64(ahead))
	switch {
	case slices.Equal(out, cs):
		out = cs
	case slices.Equal(out, list.result):
		out = l.pool.intern(now, list.result) // so that the pool retains it
	default:
		out = l.pool.intern(now, out)
	}
	*list = limitedList{result: out, version: l.version, validUntil: now + maxListAge, lastUsed: now}
	return out
}

// addList makes room for a list. If there are too many, all are deleted: those in use are made again, and the pool has
// what is in them.
func (l *PushLimits) addList(key derivedKey[int]) *limitedList {
	if len(l.lists) >= maxCostLists || l.candidates+key.n > maxCostCandidates {
		clear(l.lists)
		l.candidates = 0
	}
	list := &limitedList{}
	l.lists[key] = list
	l.candidates += key.n
	return list
}

// withCaps returns a copy of the candidates with their limits.
func (l *PushLimits) withCaps(now time.Duration, cs []Candidate, ahead int64) []Candidate {
	out := slices.Clone(cs)
	for i := range out {
		c := &out[i]
		if n := l.endpoint(now, c.Addr).published; n > 0 && (c.Cap <= 0 || n+ahead < c.Cap) {
			c.Cap = n + ahead
		}
	}
	return out
}

// endpoint returns what is known of an endpoint that is in use.
func (l *PushLimits) endpoint(now time.Duration, addr string) *pushLimit {
	p := l.endpoints[addr]
	if p == nil {
		p = &pushLimit{limit: firstPush, published: firstPush}
		l.endpoints[addr] = p
		l.version++
	}
	p.usedAt = now
	return p
}

// fresh reports whether there is a sample that shows how full the engine is.
func (l *PushLimits) fresh(now time.Duration, p *pushLimit) bool {
	return p.freshAt > 0 && now-p.freshAt <= l.staleAfter
}

// publish has candidates get the limit as it is now.
func (l *PushLimits) publish(now time.Duration, p *pushLimit) {
	n := max(1, int64(p.limit))
	if !l.fresh(now, p) {
		switch {
		case p.ttft.unmeasured >= maxUnmeasured:
			n = 0
		case p.ttft.probing:
			part, _ := p.ttft.probeShare()
			n = max(1, int64(p.limit*part))
		}
	}
	if n != p.published {
		p.published = n
		l.version++
	}
}

// sweep deletes lists that are not in use, and endpoints that no list has had for long.
func (l *PushLimits) sweep(now time.Duration) {
	if now-l.sweptAt < unusedListTTL/10 {
		return
	}
	l.sweptAt = now
	for key, list := range l.lists {
		if now-list.lastUsed > unusedListTTL {
			delete(l.lists, key)
			l.candidates -= key.n
		}
	}
	for addr, p := range l.endpoints {
		if now-p.usedAt > unusedEndpointListTTL {
			delete(l.endpoints, addr)
		}
	}
	l.pool.sweep(now)
}

// raise raises the limit, to most at most: by half while it was never too high, later by steps that double while it is
// not.
func (p *pushLimit) raise(most float64) {
	limit, step := math.Floor(p.limit), p.step
	if step == 0 {
		step = limit * firstRaiseShare
	} else {
		p.step = min(2*step, max(1, limit*raiseShare))
	}
	p.limit = limit + math.Floor(max(0, min(step, most-limit)))
}
