package lb

import "time"

// CacheConfig configures how prefix_cache weighs cached tokens against load.
type CacheConfig struct {
	Credit      float64       // tokens of load that a cached token is worth while no request waits and nothing is evicted
	TTL         time.Duration // how long an endpoint is assumed to retain what it has computed, [MaxTTL] at most
	IndexMemory IndexMemory   // of the cluster's prefix index
}

// MaxTTL is the longest time that an endpoint is assumed to retain what it has computed, whatever is configured: stores
// count in ticks that wrap.
const MaxTTL = 48 * time.Hour

// prefixCache is prefix_cache: the endpoint with the longest match of the prompt in its KV cache, unless the work in
// flight there costs more than computing the prompt elsewhere. Load is in tokens. Without a match it is
// global_least_request.
//
// A match earns a credit in tokens of load. So a prompt moves to another endpoint as soon as those that have it carry
// that much more load than the others; afterwards that endpoint has it too. The credit is lower for a prefix that many
// requests share (see popularity), and higher while requests wait at all endpoints (see answerStats) and where caches
// evict early (see cacheSummary).
type prefixCache struct {
	*leastRequest
	cache   CacheConfig
	caches  *CacheTracker
	summary cacheSummary
	engines *Engines
	engine  *EngineConfig
}

func newPrefixCache(c Config) (Policy, error) {
	c.Cache.TTL = min(c.Cache.TTL, MaxTTL)
	return &prefixCache{
		leastRequest: newLeastRequestIn(c, Tokens), cache: c.Cache, caches: c.Caches,
		engines: c.Engines, engine: c.Engines.internConfig(&c.Engine),
	}, nil
}

// Plan makes every healthy endpoint a candidate at the cost of its load and engine sample, less the credit for its
// match.
func (p *prefixCache) Plan(now time.Duration, r *Request, v *View) (Plan, Reason) {
	plan, reason := p.basePlan(now, r, v)
	if reason != ReasonChosen {
		return plan, reason
	}
	plan.Candidates, _ = p.engines.applyCosts(now, plan.Candidates, p.engine, Tokens, r.Model, p.cluster.hasWeights(v))
	p.caches.summarize(now, p.cache.TTL, plan.Candidates, &p.summary)
	tier, size := p.addTierCosts(&plan, v)
	p.caches.popularity.countRequest(now)
	plan.PerRequest = p.caches.answers.perRequest()
	plan.Prefix = p.prefix(r, tier, size)
	return plan, ReasonChosen
}

// prefix returns the prefix of a plan for the request, which is for a tier of so many endpoints.
func (p *prefixCache) prefix(r *Request, tier uint8, endpoints int) Prefix {
	saved := r.PromptTokens // by a full match
	if r.BypassCache {
		saved = 0
	}
	return Prefix{
		Blocks: r.Blocks, Bytes: r.PromptBytes, Tokens: saved,
		Credit:       p.cache.Credit * p.summary.displacementFactor(p.cache.TTL) * float64(saved),
		CreditGrowth: p.summary.creditGrowthOf(tier),
		CreditBytes:  p.caches.popularity.creditBytes(r.Blocks, endpoints),
		TTL:          p.summary.ttl, ShortTTL: p.summary.shortTTL,
		IndexMemory: p.cache.IndexMemory,
	}
}

// Observe passes the outcome to the cluster's health and to its cache tracker.
func (p *prefixCache) Observe(now time.Duration, o Outcome) {
	p.leastRequest.Observe(now, o)
	p.caches.observe(now, p.cache.TTL, o)
	p.caches.answers.observe(now, &o)
}
