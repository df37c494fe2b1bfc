// Package cache learns what the KV caches of a cluster's endpoints keep, how busy the endpoints are, and which prompts
// many requests share.
package cache

import (
	"math"
	"slices"
	"time"

	"github.com/warmgate/warmgate/internal/order"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prefixindex"
	"github.com/warmgate/warmgate/lb/prompt"
)

const (
	// minPredicted is the number of tokens from which on a prediction is checked: engines cache in blocks of their own.
	minPredicted = 64
	// minTTL is the shortest TTL that is learned. A prompt in use is recorded again only after FreshTicks ticks, so
	// with a shorter TTL its record would expire in between.
	minTTL = 2 * prefixindex.FreshTicks * prefixindex.Tick
	// A failed prediction multiplies the TTL by ttlCut, a correct one by ttlGain. In equilibrium one in nine fails;
	// records near the TTL, which fail most often, are then hardly ever correct.
	ttlCut, ttlGain = 0.8, 1.025
	// ttlDrift is the growth of the TTL per time that passes, so that one too short for any prediction is retried.
	ttlDrift = 0.25
	// lostMissRate is the share of predictions that fail at an endpoint that has just lost its cache.
	lostMissRate = 0.9
	// repeatSourceWeight is the weight of a failure from the same source as the previous one: one client, or one use
	// of the API that is answered without cached tokens, must not discard what is known for all. A loss that only one
	// source sees is still detected, later.
	repeatSourceWeight = 1.0 / 4
	// lossLogOdds is the log-likelihood ratio that detects a lost cache, a factor of a million: five failures in a row
	// where one in twenty is normal.
	lossLogOdds = 13.8
	// An endpoint counts as no longer reporting cached tokens in an API after silentAfter × r answers in a row without
	// them where some were expected; r is the number of earlier reports, at most maxReports.
	silentAfter, maxReports = 16, 8
	// missRateGain is the weight of the latest prediction in an endpoint's miss rate.
	missRateGain = 1.0 / 64
	// maxShortTTLs is how many endpoints with a shorter TTL a plan lists.
	maxShortTTLs = 32
	// summaryInterval is how often the values of plans are recomputed.
	summaryInterval = time.Second
	// idleEndpointTTL is how long an endpoint that is not a candidate is remembered.
	idleEndpointTTL = 10 * time.Minute
	// unlimitedTTL is the TTL of an endpoint without history. Durations can be added to it without overflow.
	unlimitedTTL = time.Duration(math.MaxInt64 / 2)
)

// Tracker is what a VM has learned of the KV caches of one cluster, and of the prompts that are requested there.
// All policies of the cluster share it, so that it survives a change of the configuration.
//
// It learns from answers how long endpoints retain what they have computed. Engines evict the least recently used
// blocks, and lose everything when they restart, without notice. But an answer reports how much of the prompt was
// cached, and the store predicted how much should have been.
//
// Each endpoint is judged separately, so that a small or misreporting one does not affect the others. An endpoint that
// has never reported a cached token may not report them at all, and gets the longest TTL. One that has and reports
// none found none: vLLM omits the number then. Since an engine may report in one API only, this is tracked per API. A
// single stray report is outweighed by a long series of silent answers, whose effect is then undone: see apiReports.
type Tracker struct {
	endpoints  map[string]*endpointCache // by address
	popularity popularity
	answers    answerStats
	paces      paces
	firsts     firstTimes
	prefills   prefills
	inTime     lb.DerivedLists
	ttl        time.Duration // of the latest plan
	losses     uint64
	scraped    uint64 // losses that metrics have shown, beside those of answers
	scratch    []time.Duration
}

// NewTracker returns the tracker of a cluster without history.
func NewTracker() *Tracker {
	return &Tracker{
		endpoints: map[string]*endpointCache{}, answers: answerStats{times: map[string]*answerTimes{}},
	}
}

// Retention returns the TTL of the latest plan, and how many times answers have shown that an endpoint has lost its
// cache.
func (c *Tracker) Retention() (ttl time.Duration, losses uint64) { return c.ttl, c.losses }

// CountRequest counts a request of any kind.
func (c *Tracker) CountRequest(now time.Duration) { c.popularity.countRequest(now) }

// PerRequest returns the load of a request in flight beside its tokens, in tokens: see [lb.Plan.PerRequest].
func (c *Tracker) PerRequest() int64 { return c.answers.perRequest() }

// CreditBytes counts a request with the given blocks that one of so many endpoints may serve, and returns
// [lb.Prefix.CreditBytes] for it: the length of a match, less for popular blocks, and more behind them: see
// [Summary.OwnGain].
func (c *Tracker) CreditBytes(blocks []prompt.Block, endpoints int, ownGain float64) []uint32 {
	return c.popularity.creditBytes(blocks, endpoints, ownGain)
}

// TryCreditBytes returns what CreditBytes would for a request that came now, and counts nothing.
func (c *Tracker) TryCreditBytes(
	now time.Duration, blocks []prompt.Block, endpoints int, ownGain float64,
) []uint32 {
	return c.popularity.tryCreditBytes(now, blocks, endpoints, ownGain)
}

// Observe learns from an answer. longest is the configured TTL, to which learned TTLs are limited.
func (c *Tracker) Observe(now, longest time.Duration, o lb.Outcome) {
	c.learnTTL(now, longest, o)
	c.answers.observe(now, &o)
	c.paces.observe(now, &o)
	c.firsts.observe(now, &o)
	c.prefills.observe(&o)
}

// PrefillTime returns how long an engine takes for so many tokens of a prompt for a model, about: rather too long.
func (c *Tracker) PrefillTime(model uint64, tokens int64) time.Duration {
	return time.Duration(c.prefills.of(model) * float64(max(0, tokens)) * float64(time.Second))
}

// Lose notes that an endpoint has lost its cache at that time, as metrics of its engine show. Calls for the same loss
// change nothing.
func (c *Tracker) Lose(addr string, at time.Duration) {
	e := c.endpoints[addr]
	if e == nil {
		e = newEndpointCache(at)
		c.endpoints[addr] = e
	}
	if at > e.lostAt {
		e.lostAt, e.logOdds = at, 0
		c.scraped++
	}
}

// endpointCache is what is known of one endpoint's cache.
type endpointCache struct {
	retentionState
	reports        map[prompt.API]*apiReports // of the APIs in which it has reported cached tokens
	lastAt         time.Duration              // time of the last answer
	lastMissSource uint64                     // source of the latest failed prediction
}

// retentionState is what an endpoint's answers have shown.
type retentionState struct {
	ttl      time.Duration // as of lastAt; see ttlAt
	cutAt    time.Duration // when ttl was last shortened: predictions from before are not checked
	lostAt   time.Duration // when the cache was found lost, 0 for never
	missRate float64       // share of failed predictions, moving average
	logOdds  float64       // log-likelihood ratio of a lost cache against the miss rate, at least 0
}

// apiReports is how an endpoint reports cached tokens in one API.
type apiReports struct {
	reports  int            // answers with cached tokens, maxReports at most
	silences int            // answers without, where some were expected, since the latest report
	saved    retentionState // of the endpoint, before these silences
}

// learnTTL learns from an answer how long its endpoint retains what it has computed.
func (c *Tracker) learnTTL(now, longest time.Duration, o lb.Outcome) {
	e := c.endpoints[o.Addr]
	silent := e == nil || e.reports[o.API] == nil
	if o.PromptTokens <= 0 || max(o.ExpectedTokens, o.CachedTokens) < minPredicted || silent && o.CachedTokens <= 0 {
		return
	}
	if e == nil {
		e = newEndpointCache(now)
		c.endpoints[o.Addr] = e
	}
	e.ttl, e.lastAt = e.ttlAt(now), max(e.lastAt, now)
	if !e.updateReports(o) {
		return
	}
	hit := 2*o.CachedTokens >= o.ExpectedTokens
	if o.ExpectedTokens >= minPredicted && o.PlannedAt >= e.lostAt && e.detectLoss(hit, o.Source) {
		e.lostAt = max(now, 1)
		c.losses++
	}
	if o.PlannedAt < max(e.cutAt, e.lostAt) {
		return
	}
	switch {
	case !hit:
		e.ttl, e.cutAt = max(scaled(min(e.ttl, longest), ttlCut), min(minTTL, longest)), now
	case e.ttl < longest:
		e.ttl = min(scaled(e.ttl, ttlGain), longest)
	}
}

func newEndpointCache(now time.Duration) *endpointCache {
	return &endpointCache{
		retentionState: retentionState{ttl: unlimitedTTL, missRate: 1 - lostMissRate},
		reports:        map[prompt.API]*apiReports{}, lastAt: now,
	}
}

// updateReports records whether the answer reports cached tokens. It returns false once a series of silences shows that
// the endpoint does not report in that API, and undoes the effect of the series. Answers to requests from before a loss
// are not part of it.
func (e *endpointCache) updateReports(o lb.Outcome) bool {
	r := e.reports[o.API]
	switch {
	case r == nil:
		e.reports[o.API] = &apiReports{reports: 1}
		return true
	case o.CachedTokens > 0:
		r.reports, r.silences = min(r.reports+1, maxReports), 0
		return true
	case o.PlannedAt < e.lostAt:
		return true
	}
	if r.silences == 0 {
		r.saved = e.retentionState
	}
	if r.silences++; r.silences < silentAfter*r.reports {
		return true
	}
	e.retentionState = r.saved
	delete(e.reports, o.API)
	return false
}

func scaled(d time.Duration, by float64) time.Duration { return time.Duration(float64(d) * by) }

// detectLoss adds the result of a prediction and reports whether the endpoint has lost its cache. It is Page's CUSUM
// test, as in package health: the likelihood of the failures with a lost cache against that at the endpoint's miss
// rate.
func (e *endpointCache) detectLoss(hit bool, source uint64) bool {
	missRate := min(max(e.missRate, 0.02), 0.5)
	if hit {
		e.logOdds = max(0, e.logOdds+math.Log((1-lostMissRate)/(1-missRate)))
		e.missRate -= e.missRate * missRateGain
		return false
	}
	weight := 1.0
	if e.lastMissSource == source {
		weight = repeatSourceWeight
	}
	e.lastMissSource = source
	e.logOdds += weight * math.Log(lostMissRate/missRate)
	e.missRate += (1 - e.missRate) * missRateGain
	if e.logOdds < lossLogOdds {
		return false
	}
	e.logOdds = 0
	return true
}

// Summary is what the plans of one policy contain about caches, as last computed.
type Summary struct {
	TTL          time.Duration // 0 before the first computation
	ShortTTL     []lb.EndpointTTL
	updatedAt    time.Duration
	creditGrowth []float64 // by tier
	losses       uint64    // of the tracker, as of updatedAt
}

// DisplacementFactor returns the cost of a computed token relative to its computation, from 1 to 2, given the
// configured TTL. At endpoints that evict before that, each token displaces another, which will have to be computed
// again.
func (s *Summary) DisplacementFactor(longest time.Duration) float64 {
	if s.TTL >= longest {
		return 1
	}
	return 2 - float64(s.TTL)/float64(longest)
}

// CreditGrowthOf returns [lb.Prefix.CreditGrowth] for requests of the tier, 0 if it is newer than the summary.
func (s *Summary) CreditGrowthOf(tier uint8) float64 {
	if int(tier) >= len(s.creditGrowth) {
		return 0
	}
	return s.creditGrowth[tier]
}

// OwnGain returns by how much more a conversation's own part of a prompt is worth behind a part that others share, from
// 0 to 1, for a request of the tier: most while no request waits for prefill. What is shared earns little credit, so
// that little holds the conversation where it was; while requests wait the load has to decide, and where caches evict
// what they hold. Without streamed answers it is 0.
func (s *Summary) OwnGain(tier uint8, longest time.Duration) float64 {
	growth := s.CreditGrowthOf(tier)
	if growth <= 0 || s.DisplacementFactor(longest) > 1 {
		return 0
	}
	waiting := math.Sqrt(growth / growthPerWaiting)
	return max(0, 1-waiting/maxIdleWaiting)
}

// Summarize updates the summary for the candidates once per summaryInterval, and at once after a loss. The TTL is the
// median of the candidates', at most longest. Endpoints with less than half of it are listed with their own, and so are
// those that lost their cache more recently.
func (c *Tracker) Summarize(now, longest time.Duration, cs []lb.Candidate, s *Summary) {
	if s.TTL > 0 && now-s.updatedAt < summaryInterval && s.losses == c.losses+c.scraped {
		return
	}
	pruneIdle(c.answers.times, now, cs, func(t *answerTimes) time.Duration { return t.lastAt })
	pruneIdle(c.paces.endpoints, now, cs, func(p *pace) time.Duration { return p.lastAt })
	pruneIdle(c.firsts.endpoints, now, cs, func(p *pace) time.Duration { return p.lastAt })
	*s = Summary{
		TTL: longest, updatedAt: now, losses: c.losses + c.scraped, creditGrowth: c.answers.creditGrowth(now, cs),
	}
	c.ttl = longest
	if len(c.endpoints) == 0 || len(cs) == 0 {
		return
	}
	pruneIdle(c.endpoints, now, cs, func(e *endpointCache) time.Duration { return e.lastAt })
	c.scratch = c.scratch[:0]
	for i := range cs {
		c.scratch = append(c.scratch, min(c.endpoints[cs[i].Addr].ttlAt(now), longest))
	}
	order.Up(c.scratch)
	s.TTL = c.scratch[len(c.scratch)/2]
	c.ttl = s.TTL
	s.ShortTTL = c.shortTTLs(now, s.TTL, longest, cs)
}

// shortTTLs returns the candidates whose entries expire sooner than ttl, the shortest maxShortTTLs of them.
func (c *Tracker) shortTTLs(now, ttl, longest time.Duration, cs []lb.Candidate) (short []lb.EndpointTTL) {
	for i := range cs {
		e := c.endpoints[cs[i].Addr]
		own := min(e.ttlAt(now), longest)
		switch since := e.sinceLoss(now); {
		case since < ttl:
			own = min(own, since)
		case own >= ttl/2:
			continue
		}
		short = append(short, lb.EndpointTTL{Endpoint: lb.EndpointTag(cs[i].Addr), TTL: own})
	}
	if len(short) > maxShortTTLs {
		order.By(short, func(a, b *lb.EndpointTTL) bool {
			return a.TTL < b.TTL || a.TTL == b.TTL && a.Endpoint < b.Endpoint
		})
		short = short[:maxShortTTLs]
	}
	return short
}

// pruneIdle deletes endpoints that are not candidates and without an answer for idleEndpointTTL. lastAt returns the
// time of the last answer.
func pruneIdle[T any](known map[string]T, now time.Duration, cs []lb.Candidate, lastAt func(T) time.Duration) {
	if len(known) <= len(cs) {
		return
	}
	for addr, k := range known {
		if now-lastAt(k) <= idleEndpointTTL {
			continue
		}
		if !slices.ContainsFunc(cs, func(c lb.Candidate) bool { return c.Addr == addr }) {
			delete(known, addr)
		}
	}
}

// ttlAt returns the TTL with its growth since the last answer; for a nil endpoint it is unlimited.
func (e *endpointCache) ttlAt(now time.Duration) time.Duration {
	if e == nil {
		return unlimitedTTL
	}
	return min(e.ttl+scaled(max(0, now-e.lastAt), ttlDrift), unlimitedTTL)
}

// sinceLoss returns how long ago the cache was found lost, the maximum if it never was.
func (e *endpointCache) sinceLoss(now time.Duration) time.Duration {
	if e == nil || e.lostAt == 0 {
		return math.MaxInt64
	}
	return max(0, now-e.lostAt)
}
