package lb

import "time"

// CacheConfig says how prefix_cache trades what is cached against load.
type CacheConfig struct {
	Credit float64       // tokens of load that one cached token of the prompt is worth
	TTL    time.Duration // for how long an endpoint is taken to keep what it has computed
	Room   int           // bytes that the embedded store may use to remember who has what
	Shared int           // bytes that a store in Redis may use for that
}

// prefixCache is prefix_cache: the endpoint that has most of the prompt in its KV cache, unless the work in flight there costs
// more than computing the prompt elsewhere. Load is in tokens. Without a match it is global_least_request.
//
// What is cached is worth a number of tokens of load, so a prompt goes to another endpoint as soon as those that have it carry
// that much more than the others; these then have it as well. The hotter it is, the less that takes: see popularity.
type prefixCache struct {
	leastRequest
	cache     CacheConfig
	retention *retention
	popular   popularity
}

func newPrefixCache(c Config) (Policy, error) {
	return &prefixCache{leastRequest{unit: Tokens, terms: &c.Terms, health: c.Health}, c.Cache, newRetention(c.Cache.TTL), popularity{}}, nil
}

// Plan makes every healthy endpoint a candidate at a cost of its load, less what it has of the prompt.
func (p *prefixCache) Plan(now time.Duration, r *Request, v *View) (Plan, Reason) {
	plan, reason := p.leastRequest.Plan(now, r, v)
	ttl, less := p.retention.terms(now, plan.Candidates)
	plan.Prefix = Prefix{
		Blocks: r.Blocks, Length: r.Length, Tokens: r.PromptTokens, Credit: p.cache.Credit * float64(r.PromptTokens),
		Worth: p.popular.worth(r.Blocks, r.Length, len(plan.Candidates)),
		TTL:   ttl, Less: less, Room: p.cache.Room, Shared: p.cache.Shared,
	}
	return plan, reason
}
