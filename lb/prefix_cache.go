package lb

import "time"

// CacheConfig says how prefix_cache trades what is cached against load.
type CacheConfig struct {
	Credit float64       // tokens of load that one cached token of the prompt is worth
	TTL    time.Duration // for how long an endpoint is taken to keep what it has computed
	Room   int           // bytes that the embedded store may use to remember who has what
}

// prefixCache is prefix_cache: the endpoint that has most of the prompt in its KV cache, unless the work in flight there costs
// more than computing the prompt elsewhere. Load is in tokens. Without a match it is global_least_request.
//
// What is cached is worth a number of tokens of load, so a hot prompt goes to further endpoints as soon as those that have it
// carry that much more than the others; these then have it as well.
type prefixCache struct {
	leastRequest
	cache CacheConfig
}

func newPrefixCache(c Config) (Policy, error) {
	return &prefixCache{leastRequest{unit: Tokens, terms: &c.Terms, health: c.Health}, c.Cache}, nil
}

// Plan makes every healthy endpoint a candidate at a cost of its load, less what it has of the prompt.
func (p *prefixCache) Plan(now time.Duration, r *Request, v *View) (Plan, Reason) {
	plan, reason := p.leastRequest.Plan(now, r, v)
	plan.Prefix = Prefix{
		Blocks: r.Blocks, Length: r.Length, Tokens: r.PromptTokens, Credit: p.cache.Credit * float64(r.PromptTokens),
		TTL: p.cache.TTL, Room: p.cache.Room,
	}
	return plan, reason
}
