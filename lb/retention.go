package lb

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb/prompt"
)

// EndpointTTL is for how long an endpoint is taken to keep what it has computed: what was noted for it longer ago does not count.
type EndpointTTL struct {
	Endpoint uint32 // see HolderOf
	TTL      time.Duration
}

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
	// again is what a failure counts towards a loss that comes from where the one before came from: one client, or one use of the
	// API of which the engine says nothing, must not void what is known for all. Where nobody else asks it is still found out.
	again = 1.0 / 4
	// lossOdds is the logarithm of how much likelier than usual a row of failures must be with a lost cache: a million
	// times, which takes five in a row where one in twenty fails anyway.
	lossOdds = 13.8
	// An endpoint that has reported cached tokens in one API is silent there again after silentAfter answers in a row
	// that report none where some were expected, for each report that there was; more than mostReports count as that
	// many.
	silentAfter, mostReports = 16, 8
	// usualShare of what is known of an endpoint's usual failures comes from the latest prediction.
	usualShare = 1.0 / 64
	// maxLess is how many endpoints a plan names that keep less than the others.
	maxLess = 32
	// keptEvery is how often what plans say is worked out anew.
	keptEvery = time.Second
	// goneAfter is how long an endpoint that is no candidate is kept in mind.
	goneAfter = 10 * time.Minute
	// forever is what an endpoint is believed to keep things for until an answer says otherwise; time can be added to it.
	forever = time.Duration(math.MaxInt64 / 2)
)

// CacheTracker is what a VM has learned of the KV caches of a cluster, and of the prompts that are asked for there. Policies
// come and go with configurations; this stays, and all policies of the cluster share it. The prompts take 64 KiB from
// the first one on.
//
// It learns from answers for how long endpoints keep what they have computed. Engines evict what was used longest ago, and lose
// everything when they restart; nobody tells. But answers say how much of a prompt was cached, and the store has said how much
// should have been.
//
// Each endpoint is judged by itself, so one that is small, or lies, says nothing of the others. One that has never reported a
// cached token may not report them at all, and is taken to keep everything. One that has, and reports nothing, has found none:
// vLLM leaves the number out then. It does so for one API and not for another, so that goes by the shape of requests. One odd
// report is outweighed by a long row of silences, which then have said nothing; see [reporting].
type CacheTracker struct {
	endpoints map[string]*keeper
	popular   popularity
	pressure  pressure
	keeps     time.Duration // what a plan has last said
	losses    uint64
	sorted    []time.Duration
}

// NewCacheTracker returns the caches of a cluster of which nothing is known.
func NewCacheTracker() *CacheTracker {
	return &CacheTracker{endpoints: map[string]*keeper{}, pressure: pressure{times: map[string]*times{}}}
}

// Retention returns for how long endpoints are taken to keep what they have computed, as the latest plan said, and how many times
// one was found to have lost everything.
func (c *CacheTracker) Retention() (keeps time.Duration, losses uint64) { return c.keeps, c.losses }

// keeper is what is known of an endpoint's cache.
type keeper struct {
	memory
	reports map[prompt.API]*reporting // of the APIs in which it has reported cached tokens
	at      time.Duration             // when it was last heard of
	by      uint64                    // source of the latest prediction that failed
}

// memory is what answers have taught of it.
type memory struct {
	keeps time.Duration // for how long it keeps things, as of the keeper's at
	cut   time.Duration // when keeps was last shortened: what was planned before says nothing of it
	lost  time.Duration // when it was found to have lost everything, 0 for never
	usual float64       // share of predictions that fail, moving average
	odds  float64       // logarithm of how likely the latest failures are with a lost cache, against as usual; at least 0
}

// reporting is how an endpoint reports cached tokens in one API.
type reporting struct {
	count  int    // reports, mostReports at most
	row    int    // answers since the latest one that reported none where some were expected
	before memory // the endpoint's, when the row began
}

// observe learns from the answer to a request whose plan took endpoints to keep things for longest at most. Beyond that it says
// nothing.
func (c *CacheTracker) observe(now, longest time.Duration, o Outcome) {
	k := c.endpoints[o.Addr]
	silent := k == nil || k.reports[o.API] == nil
	if o.PromptTokens <= 0 || max(o.ExpectedTokens, o.CachedTokens) < leastTold || silent && o.CachedTokens <= 0 {
		return
	}
	if k == nil {
		k = &keeper{memory: memory{keeps: forever, usual: 1 - lossMisses}, at: now}
		k.reports = map[prompt.API]*reporting{}
		c.endpoints[o.Addr] = k
	}
	k.keeps, k.at = k.keepsAt(now), max(k.at, now)
	if !k.reported(o) {
		return
	}
	kept := 2*o.CachedTokens >= o.ExpectedTokens
	if o.ExpectedTokens >= leastTold && o.PlannedAt >= k.lost && k.suspect(kept, o.Source) {
		k.lost = max(now, 1)
		c.losses++
	}
	if o.PlannedAt < max(k.cut, k.lost) {
		return
	}
	switch {
	case !kept:
		k.keeps, k.cut = max(scaled(min(k.keeps, longest), keptCut), min(leastKept, longest)), now
	case k.keeps < longest:
		k.keeps = min(scaled(k.keeps, keptGain), longest)
	}
}

// reported notes what the answer reports. It returns false, and undoes what a row of silences did, once the row is so
// long that the endpoint does not report in that API. Answers to requests from before a loss are no part of it.
func (k *keeper) reported(o Outcome) bool {
	r := k.reports[o.API]
	switch {
	case r == nil:
		k.reports[o.API] = &reporting{count: 1}
		return true
	case o.CachedTokens > 0:
		r.count, r.row = min(r.count+1, mostReports), 0
		return true
	case o.PlannedAt < k.lost:
		return true
	}
	if r.row == 0 {
		r.before = k.memory
	}
	if r.row++; r.row < silentAfter*r.count {
		return true
	}
	k.memory = r.before
	delete(k.reports, o.API)
	return false
}

func scaled(d time.Duration, by float64) time.Duration { return time.Duration(float64(d) * by) }

// suspect says whether the endpoint has lost its cache, as far as the latest predictions tell. This is Page's test for a change:
// the likelihood of their failures with a lost cache is weighed against that of as many as usual.
func (k *keeper) suspect(kept bool, source uint64) bool {
	usual := min(max(k.usual, 0.02), 0.5)
	if kept {
		k.odds = max(0, k.odds+math.Log((1-lossMisses)/(1-usual)))
		k.usual -= k.usual * usualShare
		return false
	}
	weight := 1.0
	if k.by == source {
		weight = again
	}
	k.by = source
	k.odds += weight * math.Log(lossMisses/usual)
	k.usual += (1 - k.usual) * usualShare
	if k.odds < lossOdds {
		return false
	}
	k.odds = 0
	return true
}

// belief is what the plans of one policy say of caches, as last worked out.
type belief struct {
	ttl    time.Duration // 0 before the first time
	less   []EndpointTTL
	worked time.Duration // when that was
	wait   float64       // what the plans' Prefix.Wait is
	losses uint64        // that were known then
}

// displaced returns by how much a computed token costs more than its computation, when endpoints are taken to keep what
// they have for longest at most. If they evict before that, each token displaces another, which will have to be
// computed again when it is wanted: that is twice the cost.
func (b *belief) displaced(longest time.Duration) float64 {
	if b.ttl >= longest {
		return 1
	}
	return 2 - float64(b.ttl)/float64(longest)
}

// terms brings the belief up to date: for how long the candidates are taken to keep what they have, longest at most, and which of
// them keep less. The time is that of the endpoint in the middle; those that keep half of it or more are not told apart from it, so
// that the list is short. A loss is told at once.
func (c *CacheTracker) terms(now, longest time.Duration, cs []Candidate, b *belief) {
	if b.ttl > 0 && now-b.worked < keptEvery && b.losses == c.losses {
		return
	}
	prune(c.pressure.times, now, cs, func(t *times) time.Duration { return t.at })
	*b = belief{ttl: longest, worked: now, losses: c.losses, wait: c.pressure.wait(cs)}
	c.keeps = longest
	if len(c.endpoints) == 0 || len(cs) == 0 {
		return
	}
	prune(c.endpoints, now, cs, func(k *keeper) time.Duration { return k.at })
	c.sorted = c.sorted[:0]
	for i := range cs {
		c.sorted = append(c.sorted, min(c.endpoints[cs[i].Addr].keepsAt(now), longest))
	}
	slices.Sort(c.sorted)
	b.ttl = c.sorted[len(c.sorted)/2]
	c.keeps = b.ttl
	for i := range cs {
		k := c.endpoints[cs[i].Addr]
		keeps := min(k.keepsAt(now), longest)
		switch has := k.hasFor(now); {
		case has < b.ttl:
			keeps = min(keeps, has)
		case keeps >= b.ttl/2:
			continue
		}
		b.less = append(b.less, EndpointTTL{EndpointTag(cs[i].Addr), keeps})
	}
	if len(b.less) > maxLess {
		slices.SortFunc(b.less, func(a, b EndpointTTL) int { return cmp.Compare(a.TTL, b.TTL) })
		b.less = b.less[:maxLess]
	}
}

// prune forgets endpoints that are no candidates and of which nothing has come for long; at returns when something did.
func prune[T any](known map[string]T, now time.Duration, cs []Candidate, at func(T) time.Duration) {
	if len(known) <= len(cs) {
		return
	}
	for addr, k := range known {
		if now-at(k) > goneAfter && !slices.ContainsFunc(cs, func(c Candidate) bool { return c.Addr == addr }) {
			delete(known, addr)
		}
	}
}

// keepsAt returns for how long the endpoint keeps things, which grows with the time since it was last heard of. Without an endpoint
// it is forever.
func (k *keeper) keepsAt(now time.Duration) time.Duration {
	if k == nil {
		return forever
	}
	return min(k.keeps+scaled(max(0, now-k.at), keptDrift), forever)
}

// hasFor returns how long ago the endpoint was found to have lost its cache.
func (k *keeper) hasFor(now time.Duration) time.Duration {
	if k == nil || k.lost == 0 {
		return math.MaxInt64
	}
	return max(0, now-k.lost)
}

// keeps returns for how long the endpoint is taken to keep what it has computed. Of several that are not told apart the last counts,
// as in Redis.
func (p *Prefix) keeps(endpoint uint32) time.Duration {
	for i := len(p.ShortTTL) - 1; i >= 0; i-- {
		if p.ShortTTL[i].Endpoint == endpoint {
			return p.ShortTTL[i].TTL
		}
	}
	return p.TTL
}
