package lb

import (
	"strconv"
	"time"

	"github.com/warmgate/warmgate/lb/setting"
)

func init() {
	register(&Descriptor{
		Name: "prefix_cache", Rank: 2,
		Meaning: setting.Words{
			EN: "where the prompt's beginning is in the KV cache, unless it is too busy there",
			ZH: "KV cache 中已有提示词开头的端点，除非它太忙",
		},
		Needs: Needs{
			Tokens: "weighs cached tokens against tokens in flight",
			Prompt: true, Metrics: MetricsOptional,
		},
		Settings: func() any { return new(CacheConfig) },
		Keys:     cacheKeys,
		Sections: []setting.Section{{
			Name:  "prefix",
			Title: setting.Words{EN: "Prefix cache", ZH: "前缀缓存"},
			Meaning: setting.Words{
				EN: "prefix_cache: how prompts are cut into blocks, and what a cached one is worth",
				ZH: "prefix_cache：如何将提示词切分成块，以及已缓存的提示词价值多少",
			},
		}},
		Check: func(settings any, r setting.Report) { settings.(*CacheConfig).check(r) },
		New:   newPrefixCache,
	})
}

// CacheConfig configures how prefix_cache weighs cached tokens against load.
type CacheConfig struct {
	// tokens of load that a cached token is worth while no request waits and nothing is evicted
	Credit      float64
	TTL         time.Duration // how long an endpoint is assumed to retain what it has computed, [MaxTTL] at most
	IndexMemory IndexMemory   // of the cluster's prefix index
}

// MaxTTL is the longest time that an endpoint is assumed to retain what it has computed, whatever is configured: stores
// count in ticks that wrap.
const MaxTTL = 48 * time.Hour

const (
	minConfigTTL     = 64 * time.Second // blocks in use are recorded again only every 30 s
	defaultConfigTTL = 1800 * time.Second
	keyTTL           = "redisKeyTTL"
)

var cacheKeys = []setting.Key{
	{
		Name: "prefix.credit", Type: setting.Number, Min: 0, Max: 1000, Default: "2",
		Title: setting.Words{EN: "Credit", ZH: "缓存的价值"},
		Meaning: setting.Words{
			EN: "prefix_cache: how many tokens of load one cached token of the prompt outweighs, more while requests " +
				"wait or caches evict, less for prompts that more requests begin with than one endpoint can serve; " +
				"0: none",
			ZH: "prefix_cache：一个已缓存的提示词 token 抵得上多少个在途 token；有请求排队或缓存淘汰时相应增加；" +
				"若以此开头的请求多到一个端点处理不完，则相应减少；0：不计",
		},
		Field: func(s any) any { return &s.(*CacheConfig).Credit },
	},
	{
		Name: "prefix.table_bytes", Type: setting.Size, Min: 64 << 10, Max: 1 << 30, Default: "8388608",
		Title: setting.Words{EN: "Memory", ZH: "内存"},
		Meaning: setting.Words{
			EN: "prefix_cache: how much of its memory a gateway may use for the index of prompts",
			ZH: "prefix_cache：网关最多用多少内存记住谁缓存了什么",
		},
		Field: func(s any) any { return &s.(*CacheConfig).IndexMemory.Local },
	},
	{
		Name: "prefix.redis_bytes", Type: setting.Size, Min: 1 << 20, Max: 16 << 30, Default: "67108864",
		Title: setting.Words{EN: "Memory of Redis", ZH: "Redis 内存"},
		Meaning: setting.Words{
			EN: "prefix_cache: how much memory of Redis each cluster may use for that index; the same in all " +
				"gateways",
			ZH: "prefix_cache：每个集群为此最多使用多少 Redis 内存；所有网关须一致",
		},
		Field: func(s any) any { return &s.(*CacheConfig).IndexMemory.Remote },
	},
	{
		Name: keyTTL, Type: setting.Seconds, Min: 0, Max: 1e9, Default: "1800", Loose: true,
		Title: setting.Words{EN: "Prefix lifetime", ZH: "前缀保留时间"},
		Meaning: setting.Words{
			EN: "prefix_cache: seconds that an endpoint is assumed to keep a prompt, 64 to 172800 (less or more " +
				"counts as those), less where usage in answers shows that; 0: the default. Higress's name, " +
				"also without Redis",
			ZH: "prefix_cache：认为端点保留提示词的秒数，64 到 172800（超出者按边界计），回答表明更短时取更短；" +
				"0：默认值。沿用 Higress 的名称，不用 Redis 时也有效",
		},
		Field: func(s any) any { return &s.(*CacheConfig).TTL },
	},
}

// check completes the settings: a TTL that is too short counts as the shortest, and 0 as the default.
func (c *CacheConfig) check(r setting.Report) {
	if c.TTL > 0 && c.TTL < minConfigTTL {
		r.Warn(keyTTL, "got "+seconds(c.TTL)+", taken as "+seconds(minConfigTTL)+
			": what is in use is noted again only every half minute")
		c.TTL = minConfigTTL
	}
	if c.TTL == 0 {
		c.TTL = defaultConfigTTL
	}
}

func seconds(d time.Duration) string { return strconv.Itoa(int(d / time.Second)) }

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
		engines: c.Engines, engine: c.Engines.lists.intern(&c.Engine),
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
