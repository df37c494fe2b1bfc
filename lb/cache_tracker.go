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
	// minPredicted is how many tokens a prediction must be about to say something: engines count in blocks of their own.
	minPredicted = 64
	// minTTL is the shortest retention that is learned. What is in use is noted again only after freshFor ticks, so that with
	// a shorter one it would come and go.
	minTTL = 2 * freshFor * seenTick
	// A prediction that fails shortens the retention to keptCut of it, one that comes true lengthens it by keptGain. It
	// comes to rest where one in nine fails: most of what fails is as old as records get, so few of those are any good.
	ttlCut, ttlGain = 0.8, 1.025
	// ttlDrift is by how much the retention grows with the time that passes, so that one that is too short for any prediction is
	// tried again.
	ttlDrift = 0.25
	// lostMissRate is the share of predictions that fail on an endpoint that has just lost its cache.
	lostMissRate = 0.9
	// repeatSourceWeight is what a failure counts towards a loss that comes from where the one before came from: one client, or one use of the
	// API of which the engine says nothing, must not void what is known for all. Where nobody else asks it is still found out.
	repeatSourceWeight = 1.0 / 4
	// lossLogOdds is the logarithm of how much likelier than usual a row of failures must be with a lost cache: a million
	// times, which takes five in a row where one in twenty fails anyway.
	lossLogOdds = 13.8
	// An endpoint that has reported cached tokens in one API is silent there again after silentAfter answers in a row
	// that report none where some were expected, for each report that there was; more than mostReports count as that
	// many.
	silentAfter, maxReports = 16, 8
	// missRateGain of what is known of an endpoint's usual failures comes from the latest prediction.
	missRateGain = 1.0 / 64
	// maxShortTTLs is how many endpoints a plan names that keep less than the others.
	maxShortTTLs = 32
	// summaryInterval is how often what plans say is worked out anew.
	summaryInterval = time.Second
	// idleEndpointTTL is how long an endpoint that is no candidate is kept in mind.
	idleEndpointTTL = 10 * time.Minute
	// unlimitedTTL is what an endpoint is believed to keep things for until an answer says otherwise; time can be added to it.
	unlimitedTTL = time.Duration(math.MaxInt64 / 2)
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
// report is outweighed by a long row of silences, which then have said nothing; see [apiReports].
type CacheTracker struct {
	endpoints  map[string]*endpointCache
	popularity popularity
	answers    answerStats
	ttl        time.Duration // what a plan has last said
	losses     uint64
	scratch    []time.Duration
}

// NewCacheTracker returns the caches of a cluster of which nothing is known.
func NewCacheTracker() *CacheTracker {
	return &CacheTracker{endpoints: map[string]*endpointCache{}, answers: answerStats{times: map[string]*answerTimes{}}}
}

// Retention returns for how long endpoints are taken to keep what they have computed, as the latest plan said, and how many times
// one was found to have lost everything.
func (c *CacheTracker) Retention() (keeps time.Duration, losses uint64) { return c.ttl, c.losses }

// endpointCache is what is known of an endpoint's cache.
type endpointCache struct {
	retentionState
	reports        map[prompt.API]*apiReports // of the APIs in which it has reported cached tokens
	lastAt         time.Duration              // when it was last heard of
	lastMissSource uint64                     // source of the latest prediction that failed
}

// retentionState is what answers have taught of it.
type retentionState struct {
	ttl      time.Duration // for how long it keeps things, as of the keeper's at
	cutAt    time.Duration // when keeps was last shortened: what was planned before says nothing of it
	lostAt   time.Duration // when it was found to have lost everything, 0 for never
	missRate float64       // share of predictions that fail, moving average
	logOdds  float64       // logarithm of how likely the latest failures are with a lost cache, against as usual; at least 0
}

// apiReports is how an endpoint reports cached tokens in one API.
type apiReports struct {
	reports  int            // reports, mostReports at most
	silences int            // answers since the latest one that reported none where some were expected
	saved    retentionState // the endpoint's, when the row began
}

// observe learns from the answer to a request whose plan took endpoints to keep things for longest at most. Beyond that it says
// nothing.
func (c *CacheTracker) observe(now, longest time.Duration, o Outcome) {
	k := c.endpoints[o.Addr]
	silent := k == nil || k.reports[o.API] == nil
	if o.PromptTokens <= 0 || max(o.ExpectedTokens, o.CachedTokens) < minPredicted || silent && o.CachedTokens <= 0 {
		return
	}
	if k == nil {
		k = &endpointCache{retentionState: retentionState{ttl: unlimitedTTL, missRate: 1 - lostMissRate}, lastAt: now}
		k.reports = map[prompt.API]*apiReports{}
		c.endpoints[o.Addr] = k
	}
	k.ttl, k.lastAt = k.ttlAt(now), max(k.lastAt, now)
	if !k.updateReports(o) {
		return
	}
	kept := 2*o.CachedTokens >= o.ExpectedTokens
	if o.ExpectedTokens >= minPredicted && o.PlannedAt >= k.lostAt && k.detectLoss(kept, o.Source) {
		k.lostAt = max(now, 1)
		c.losses++
	}
	if o.PlannedAt < max(k.cutAt, k.lostAt) {
		return
	}
	switch {
	case !kept:
		k.ttl, k.cutAt = max(scaled(min(k.ttl, longest), ttlCut), min(minTTL, longest)), now
	case k.ttl < longest:
		k.ttl = min(scaled(k.ttl, ttlGain), longest)
	}
}

// updateReports notes what the answer reports. It returns false, and undoes what a row of silences did, once the row is so
// long that the endpoint does not report in that API. Answers to requests from before a loss are no part of it.
func (k *endpointCache) updateReports(o Outcome) bool {
	r := k.reports[o.API]
	switch {
	case r == nil:
		k.reports[o.API] = &apiReports{reports: 1}
		return true
	case o.CachedTokens > 0:
		r.reports, r.silences = min(r.reports+1, maxReports), 0
		return true
	case o.PlannedAt < k.lostAt:
		return true
	}
	if r.silences == 0 {
		r.saved = k.retentionState
	}
	if r.silences++; r.silences < silentAfter*r.reports {
		return true
	}
	k.retentionState = r.saved
	delete(k.reports, o.API)
	return false
}

func scaled(d time.Duration, by float64) time.Duration { return time.Duration(float64(d) * by) }

// detectLoss says whether the endpoint has lost its cache, as far as the latest predictions tell. This is Page's test for a change:
// the likelihood of their failures with a lost cache is weighed against that of as many as usual.
func (k *endpointCache) detectLoss(kept bool, source uint64) bool {
	usual := min(max(k.missRate, 0.02), 0.5)
	if kept {
		k.logOdds = max(0, k.logOdds+math.Log((1-lostMissRate)/(1-usual)))
		k.missRate -= k.missRate * missRateGain
		return false
	}
	weight := 1.0
	if k.lastMissSource == source {
		weight = repeatSourceWeight
	}
	k.lastMissSource = source
	k.logOdds += weight * math.Log(lostMissRate/usual)
	k.missRate += (1 - k.missRate) * missRateGain
	if k.logOdds < lossLogOdds {
		return false
	}
	k.logOdds = 0
	return true
}

// cacheSummary is what the plans of one policy say of caches, as last worked out.
type cacheSummary struct {
	ttl          time.Duration // 0 before the first time
	shortTTL     []EndpointTTL
	updatedAt    time.Duration // when that was
	creditGrowth float64       // what the plans' Prefix.Wait is
	losses       uint64        // that were known then
}

// displacementFactor returns by how much a computed token costs more than its computation, when endpoints are taken to keep what
// they have for longest at most. If they evict before that, each token displaces another, which will have to be
// computed again when it is wanted: that is twice the cost.
func (b *cacheSummary) displacementFactor(longest time.Duration) float64 {
	if b.ttl >= longest {
		return 1
	}
	return 2 - float64(b.ttl)/float64(longest)
}

// summarize brings the belief up to date: for how long the candidates are taken to keep what they have, longest at most, and which of
// them keep less. The time is that of the endpoint in the middle; those that keep half of it or more are not told apart from it, so
// that the list is short. A loss is told at once.
func (c *CacheTracker) summarize(now, longest time.Duration, cs []Candidate, b *cacheSummary) {
	if b.ttl > 0 && now-b.updatedAt < summaryInterval && b.losses == c.losses {
		return
	}
	pruneIdle(c.answers.times, now, cs, func(t *answerTimes) time.Duration { return t.lastAt })
	*b = cacheSummary{ttl: longest, updatedAt: now, losses: c.losses, creditGrowth: c.answers.creditGrowth(cs)}
	c.ttl = longest
	if len(c.endpoints) == 0 || len(cs) == 0 {
		return
	}
	pruneIdle(c.endpoints, now, cs, func(k *endpointCache) time.Duration { return k.lastAt })
	c.scratch = c.scratch[:0]
	for i := range cs {
		c.scratch = append(c.scratch, min(c.endpoints[cs[i].Addr].ttlAt(now), longest))
	}
	slices.Sort(c.scratch)
	b.ttl = c.scratch[len(c.scratch)/2]
	c.ttl = b.ttl
	for i := range cs {
		k := c.endpoints[cs[i].Addr]
		keeps := min(k.ttlAt(now), longest)
		switch has := k.sinceLoss(now); {
		case has < b.ttl:
			keeps = min(keeps, has)
		case keeps >= b.ttl/2:
			continue
		}
		b.shortTTL = append(b.shortTTL, EndpointTTL{EndpointTag(cs[i].Addr), keeps})
	}
	if len(b.shortTTL) > maxShortTTLs {
		slices.SortFunc(b.shortTTL, func(a, b EndpointTTL) int { return cmp.Compare(a.TTL, b.TTL) })
		b.shortTTL = b.shortTTL[:maxShortTTLs]
	}
}

// pruneIdle forgets endpoints that are no candidates and of which nothing has come for long; at returns when something did.
func pruneIdle[T any](known map[string]T, now time.Duration, cs []Candidate, at func(T) time.Duration) {
	if len(known) <= len(cs) {
		return
	}
	for addr, k := range known {
		if now-at(k) > idleEndpointTTL && !slices.ContainsFunc(cs, func(c Candidate) bool { return c.Addr == addr }) {
			delete(known, addr)
		}
	}
}

// ttlAt returns for how long the endpoint keeps things, which grows with the time since it was last heard of. Without an endpoint
// it is forever.
func (k *endpointCache) ttlAt(now time.Duration) time.Duration {
	if k == nil {
		return unlimitedTTL
	}
	return min(k.ttl+scaled(max(0, now-k.lastAt), ttlDrift), unlimitedTTL)
}

// sinceLoss returns how long ago the endpoint was found to have lost its cache.
func (k *endpointCache) sinceLoss(now time.Duration) time.Duration {
	if k == nil || k.lostAt == 0 {
		return math.MaxInt64
	}
	return max(0, now-k.lostAt)
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
