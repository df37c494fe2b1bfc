package lb

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Keeping is for how long an endpoint is taken to keep what it has computed: what was noted for it longer ago does not count.
type Keeping struct {
	Endpoint uint32 // the lower half of the xxhash of its address
	For      time.Duration
}

// NewKeeping returns for how long the endpoint with the address keeps what it has computed.
func NewKeeping(addr string, d time.Duration) Keeping { return Keeping{uint32(hashAddr(addr)), d} }

const (
	// leastTold is how many tokens a prediction must be about to say something: engines count in blocks of their own.
	leastTold = 64
	// leastKept is the shortest retention that is learned. What is in use is noted again only after freshFor ticks, so that with
	// a shorter one it would come and go.
	leastKept = 2 * freshFor * seenTick
	// A prediction that fails shortens the retention to keptCut of it, one that comes true lengthens it by keptGain. It
	// comes to rest where one in nine fails: most of what fails is as old as records get, so few of those are any good.
	keptCut, keptGain = 0.8, 1.025
	// keptDrift is by how much the retention grows with the time that passes, so that one that is too short for any prediction is
	// tried again.
	keptDrift = 0.25
	// lossMisses is the share of predictions that fail on an endpoint that has just lost its cache.
	lossMisses = 0.9
	// lossOdds is the logarithm of how much likelier than usual a row of failures must be with a lost cache: a million
	// times, which takes five in a row where one in twenty fails anyway.
	lossOdds = 13.8
	// usualShare of what is known of an endpoint's usual failures comes from the latest prediction.
	usualShare = 1.0 / 64
	// maxLess is how many endpoints a plan names that keep less than the others.
	maxLess = 32
	// keptEvery is how often what plans say is worked out anew.
	keptEvery = time.Second
	// goneAfter is how long an endpoint that is no candidate is kept in mind.
	goneAfter = 10 * time.Minute
)

// retention learns from answers for how long the endpoints of a cluster keep what they have computed. Engines evict what was used
// longest ago, and lose everything when they restart; nobody tells. But answers say how much of a prompt was cached, and the
// store has said how much should have been.
//
// Each endpoint is judged by itself, so one that is small, or lies, says nothing of the others. One that has never told of a
// cached token may not report them at all, and is believed to keep everything. One that has, and tells nothing, has found none:
// vLLM leaves the number out then.
type retention struct {
	longest   time.Duration
	endpoints map[string]*keeper
	losses    uint64

	ttl    time.Duration // as last worked out
	less   []Keeping
	worked time.Duration // when that was
	sorted []time.Duration
}

// keeper is what is known of an endpoint's cache.
type keeper struct {
	keeps time.Duration // for how long it keeps things, as of at
	at    time.Duration // when it was last heard of
	cut   time.Duration // when keeps was last shortened: what was planned before says nothing of it
	lost  time.Duration // when it was found to have lost everything, 0 for never
	usual float64       // share of predictions that fail, moving average
	odds  float64       // logarithm of how likely the latest failures are with a lost cache, against as usual; at least 0
}

func newRetention(longest time.Duration) *retention {
	return &retention{longest: longest, endpoints: map[string]*keeper{}, ttl: longest, worked: -keptEvery}
}

// observe learns from the answer to a request.
func (r *retention) observe(now time.Duration, o Outcome) {
	k := r.endpoints[o.Addr]
	if o.PromptTokens <= 0 || max(o.ExpectedTokens, o.CachedTokens) < leastTold || k == nil && o.CachedTokens <= 0 {
		return
	}
	if k == nil {
		k = &keeper{keeps: r.longest, at: now, usual: 1 - lossMisses}
		r.endpoints[o.Addr] = k
	}
	k.keeps, k.at = k.keepsAt(now, r.longest), max(k.at, now)
	kept := 2*o.CachedTokens >= o.ExpectedTokens
	if o.ExpectedTokens >= leastTold && o.Planned >= k.lost && k.suspect(kept) {
		k.lost = max(now, 1)
		r.losses++
		r.worked = now - keptEvery // plans say so at once
	}
	if o.Planned < max(k.cut, k.lost) {
		return
	}
	if kept {
		k.keeps = min(scaled(k.keeps, keptGain), r.longest)
	} else {
		k.keeps, k.cut = max(scaled(k.keeps, keptCut), min(leastKept, r.longest)), now
	}
}

func scaled(d time.Duration, by float64) time.Duration { return time.Duration(float64(d) * by) }

// suspect says whether the endpoint has lost its cache, as far as the latest predictions tell. This is Page's test for a change:
// the likelihood of their failures with a lost cache is weighed against that of as many as usual.
func (k *keeper) suspect(kept bool) bool {
	usual := min(max(k.usual, 0.02), 0.5)
	if kept {
		k.odds = max(0, k.odds+math.Log((1-lossMisses)/(1-usual)))
		k.usual -= k.usual * usualShare
		return false
	}
	k.odds += math.Log(lossMisses / usual)
	k.usual += (1 - k.usual) * usualShare
	if k.odds < lossOdds {
		return false
	}
	k.odds = 0
	return true
}

// terms returns for how long the candidates are taken to keep what they have, and which of them keep less. The time is that of the
// endpoint in the middle; those that keep half of it or more are not told apart from it, so that the list is short.
func (r *retention) terms(now time.Duration, cs []Candidate) (time.Duration, []Keeping) {
	if len(r.endpoints) == 0 || len(cs) == 0 || now-r.worked < keptEvery {
		return r.ttl, r.less
	}
	r.worked = now
	r.prune(now, cs)
	r.sorted = r.sorted[:0]
	for i := range cs {
		r.sorted = append(r.sorted, r.endpoints[cs[i].Addr].keepsAt(now, r.longest))
	}
	slices.Sort(r.sorted)
	r.ttl, r.less = r.sorted[len(r.sorted)/2], nil
	for i := range cs {
		k := r.endpoints[cs[i].Addr]
		keeps := k.keepsAt(now, r.longest)
		switch has := k.hasFor(now); {
		case has < r.ttl:
			keeps = min(keeps, has)
		case keeps >= r.ttl/2:
			continue
		}
		r.less = append(r.less, NewKeeping(cs[i].Addr, keeps))
	}
	if len(r.less) > maxLess {
		slices.SortFunc(r.less, func(a, b Keeping) int { return cmp.Compare(a.For, b.For) })
		r.less = r.less[:maxLess]
	}
	return r.ttl, r.less
}

// prune forgets endpoints that have been gone for long.
func (r *retention) prune(now time.Duration, cs []Candidate) {
	if len(r.endpoints) <= len(cs) {
		return
	}
	for addr, k := range r.endpoints {
		if now-k.at > goneAfter && !slices.ContainsFunc(cs, func(c Candidate) bool { return c.Addr == addr }) {
			delete(r.endpoints, addr)
		}
	}
}

// keepsAt returns for how long the endpoint keeps things, which grows with the time since it was last heard of. Without an endpoint
// it is the longest.
func (k *keeper) keepsAt(now, longest time.Duration) time.Duration {
	if k == nil {
		return longest
	}
	return min(k.keeps+scaled(max(0, now-k.at), keptDrift), longest)
}

// hasFor returns how long ago the endpoint was found to have lost its cache.
func (k *keeper) hasFor(now time.Duration) time.Duration {
	if k == nil || k.lost == 0 {
		return math.MaxInt64
	}
	return max(0, now-k.lost)
}

// Observe implements [Policy].
func (p *prefixCache) Observe(now time.Duration, o Outcome) {
	p.leastRequest.Observe(now, o)
	p.retention.observe(now, o)
}

// CacheObserver is a policy that learns what KV caches keep.
type CacheObserver interface {
	// Retention returns for how long endpoints are taken to keep what they have computed, and how many times one was found to
	// have lost everything.
	Retention() (keeps time.Duration, losses uint64)
}

// Retention implements [CacheObserver].
func (p *prefixCache) Retention() (keeps time.Duration, losses uint64) {
	return p.retention.ttl, p.retention.losses
}

// keeps returns for how long the endpoint is taken to keep what it has computed.
func (p *Prefix) keeps(endpoint uint32) time.Duration {
	for i := range p.Less {
		if p.Less[i].Endpoint == endpoint {
			return p.Less[i].For
		}
	}
	return p.TTL
}
