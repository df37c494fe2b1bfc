package lb

import "time"

// CacheConfig says how prefix_cache trades what is cached against load.
type CacheConfig struct {
	Credit      float64       // tokens of load that a cached token is worth while nobody waits and caches have room
	TTL         time.Duration // for how long an endpoint is taken to keep what it has computed, [MaxTTL] at most
	MemoryBytes int           // bytes that the embedded store may use to remember who has what
	RedisBytes  int           // bytes that a store in Redis may use for that
}

// MaxTTL is for how long an endpoint is taken to keep what it has computed at most, whatever is configured: stores
// count in ticks that wrap.
const MaxTTL = 48 * time.Hour

// prefixCache is prefix_cache: the endpoint that has most of the prompt in its KV cache, unless the work in flight
// there costs more than computing the prompt elsewhere. Load is in tokens. Without a match it is global_least_request.
//
// What is cached is worth a number of tokens of load, so a prompt goes to another endpoint as soon as those that have
// it carry that much more than the others; these then have it as well. A prompt that many requests begin with needs
// less for that (see popularity). While requests wait at all endpoints, and where caches evict, it needs more (see
// pressure and belief).
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
		leastRequest: newLeastRequestIn(c, Tokens), cache: c.Cache, caches: c.Caches, engines: c.Engines, engine: c.Engines.internConfig(&c.Engine),
	}, nil
}

// Plan makes every healthy endpoint a candidate at a cost of its load, and of what its engine tells, less what it has
// of the prompt.
func (p *prefixCache) Plan(now time.Duration, r *Request, v *View) (Plan, Reason) {
	plan, reason := p.basePlan(now, r, v)
	if reason != ReasonChosen {
		return plan, reason
	}
	plan.Candidates, _ = p.engines.applyCosts(now, plan.Candidates, p.engine, Tokens, r.Model, p.cluster.hasWeights(v))
	p.caches.summarize(now, p.cache.TTL, plan.Candidates, &p.summary)
	size := p.addTierCosts(&plan, v)
	saved := r.PromptTokens // where all of it is cached
	if r.BypassCache {
		saved = 0
	}
	p.caches.popularity.countRequest(now)
	plan.PerRequest = p.caches.answers.perRequest()
	plan.Prefix = Prefix{
		Blocks: r.Blocks, Bytes: r.PromptBytes, Tokens: saved,
		Credit: p.cache.Credit * p.summary.displacementFactor(p.cache.TTL) * float64(saved), CreditGrowth: p.summary.creditGrowth,
		CreditBytes: p.caches.popularity.creditBytes(r.Blocks, size),
		TTL:         p.summary.ttl, ShortTTL: p.summary.shortTTL, MemoryBytes: p.cache.MemoryBytes, RedisBytes: p.cache.RedisBytes,
	}
	return plan, ReasonChosen
}

// Observe passes the outcome to the cluster's health, and to what is known of its caches.
func (p *prefixCache) Observe(now time.Duration, o Outcome) {
	p.leastRequest.Observe(now, o)
	p.caches.observe(now, p.cache.TTL, o)
	p.caches.answers.observe(now, &o)
}
