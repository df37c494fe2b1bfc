package policy

import (
	"slices"
	"strconv"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/cache"
	"github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/lb/push"
	"github.com/warmgate/warmgate/lb/setting"
)

func init() {
	register(&Descriptor{
		Name: "prefix_cache", Rank: 2,
		Meaning: setting.Doc(
			"where the prompt's beginning is in the KV cache, unless it is too busy there",
			"KV cache 中已有提示词开头的端点，除非它太忙",
		),
		Among: EndpointsOrClusters,
		Needs: Needs{
			Tokens: "weighs cached tokens against tokens in flight",
			Prompt: true, Metrics: MetricsOptional, Session: SessionOptional,
		},
		Settings: func() any { return new(CacheConfig) },
		Keys:     slices.Concat(cacheKeys, objectiveKeys),
		Sections: []setting.Section{{
			Name:  "prefix",
			Title: setting.Doc("Prefix cache", "前缀缓存"),
			Meaning: setting.Doc(
				"prefix_cache: how prompts are cut into blocks, and what a cached one is worth",
				"prefix_cache：如何将提示词切分成块，以及已缓存的提示词价值多少",
			),
		}, {
			Name:  "slo",
			Title: setting.Doc("Targets", "延迟目标"),
			Meaning: setting.Doc(
				"prefix_cache: how soon answers are to come",
				"prefix_cache：应答应在多长时间内到达",
			),
		}, objectiveSection},
		Check: func(settings any, r setting.Report) { settings.(*CacheConfig).check(r) },
		New:   newPrefixCache,
	})
}

// CacheConfig is the settings of prefix_cache: how cached tokens are weighed against load, and for those who make its
// requests, how prompts are cut into blocks.
type CacheConfig struct {
	// tokens of load that a cached token is worth while no request waits and nothing is evicted
	Credit      float64
	TTL         time.Duration  // how long an endpoint is assumed to retain what it has computed, [lb.MaxTTL] at most
	IndexMemory lb.IndexMemory // of the cluster's prefix index
	Objective   Objective

	BlockBytes int // length of the first blocks
	// SessionAffinity has requests without a cached prompt go where their session belongs, if that costs the same.
	SessionAffinity bool

	CacheTokens int       // tokens that the KV cache of an endpoint of weight 1 holds, 0 if unknown
	Target      lb.Target // how soon answers are to come; [lb.Request.Target] goes before it

	// IfAvailable is the number of tokens to compute of a prompt from which on a request with `Prefer: if-available` is
	// refused; 0: none is.
	IfAvailable int

	TenantHeader string // prompts of requests with different values of it share no blocks; "" for none
	Secret       Secret // key of the hashes of blocks; "" for one that does not come from the configuration
}

// Secret is a text that package fmt does not show, so that settings printed by mistake contain none.
type Secret string

// String returns a mask, or "" for no secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "***"
}

// GoString is String.
func (s Secret) GoString() string { return s.String() }

const (
	minConfigTTL = 64 * time.Second // blocks in use are recorded again only every 30 s
	keyTTL       = "redisKeyTTL"
	keyAffinity  = "session_affinity"
)

var cacheKeys = []setting.Key{
	{
		Name: "prefix.credit", Type: setting.Number, Min: 0, Max: 1000, Default: "2",
		Title: setting.Doc("Credit", "缓存的价值"),
		Meaning: setting.Doc(
			"prefix_cache: how many tokens in flight one cached token of the prompt makes up for. With 2, an "+
				"endpoint that has 1,000 tokens of it cached is taken until it has 2,000 more in flight than one "+
				"that has none. It is more while requests wait or caches evict, and less for a prompt that is too "+
				"popular for one endpoint; 0: what is cached does not matter",
			"prefix_cache：一个已缓存的提示词 token 抵得上多少个在途 token。设为 2 时，已缓存其中 1,000 个 token 的端点，"+
				"在其在途 token 比毫无缓存的端点多出 2,000 个之前，都会被选中。有请求排队或缓存有淘汰时相应增加；"+
				"提示词热门到一个端点处理不完时相应减少；0：不考虑缓存",
		),
		Field: func(s any) any { return &s.(*CacheConfig).Credit },
	},
	{
		Name: keyAffinity, Type: setting.Boolean, Default: "false",
		Title: setting.Doc("Session affinity", "会话亲和"),
		Meaning: setting.Doc(
			"prefix_cache: of endpoints that cost the same, take the one where the session belongs by `session.key`, "+
				"not a random one",
			"prefix_cache：在代价相同的端点中，选择会话按 `session.key` 所属的那个，而不是随机选择",
		),
		Field: func(s any) any { return &s.(*CacheConfig).SessionAffinity },
	},
	{
		Name: "prefix.if_available_tokens", Type: setting.Integer, Min: 0, Max: 1e6, Default: "0",
		Title: setting.Doc("Only if cached", "仅当已缓存"),
		Meaning: setting.Doc(
			"prefix_cache: a request with the header `Prefer: if-available`, as the coordinator of llm-d sends it, is "+
				"answered 412 at once unless an endpoint with room has all but fewer than so many tokens of its "+
				"prompt cached; 0: the header has no effect",
			"prefix_cache：带有请求头 `Prefer: if-available` 的请求（llm-d 的 coordinator 会发送），若没有空闲端点已缓存其"+
				"提示词、只差不到这么多 token 需要计算，则立即以 412 应答；0：该请求头不起作用",
		),
		Field: func(s any) any { return &s.(*CacheConfig).IfAvailable },
	},
	{
		Name: "prefix.table_bytes", Type: setting.Size, Min: 64 << 10, Max: 1 << 30, Default: "8388608",
		Title: setting.Doc("Memory", "内存"),
		Meaning: setting.Doc(
			"prefix_cache: how much of its memory a gateway may use for the index of prompts, over all clusters",
			"prefix_cache：网关的提示词索引最多使用多少内存，所有集群合计",
		),
		Field: func(s any) any { return &s.(*CacheConfig).IndexMemory.Local },
	},
	{
		Name: "prefix.redis_bytes", Type: setting.Size, Min: 1 << 20, Max: 16 << 30, Default: "67108864",
		Title: setting.Doc("Memory of Redis", "Redis 内存"),
		Meaning: setting.Doc(
			"prefix_cache: how much memory of Redis each cluster may use for the index of prompts; the same in all "+
				"gateways",
			"prefix_cache：每个集群的提示词索引最多使用多少 Redis 内存；所有网关须一致",
		),
		Field: func(s any) any { return &s.(*CacheConfig).IndexMemory.Remote },
	},
	{
		Name: keyTTL, Type: setting.Seconds, Min: 0, Max: 1e9, Default: "1800", ZeroIsDefault: true, Loose: true,
		Title: setting.Doc("Prefix lifetime", "前缀保留时间"),
		Meaning: setting.Doc(
			"prefix_cache: seconds that an endpoint is assumed to keep a prompt, 64 to 172800 (less or more "+
				"counts as those), less where usage in answers shows that; 0: the default. Higress's name, "+
				"also without Redis",
			"prefix_cache：认为端点保留提示词的秒数，64 到 172800（超出者按边界计），应答中的 usage 表明更短时取更短；"+
				"0：默认值。沿用 Higress 的名称，不用 Redis 时也有效",
		),
		Field: func(s any) any { return &s.(*CacheConfig).TTL },
	},
	{
		Name: "prefix.block_bytes", Type: setting.Size, Min: 64, Max: 64 << 10, Default: "512",
		Title: setting.Doc("Block length", "块长度"),
		Meaning: setting.Doc(
			"prefix_cache: length of the first blocks of a prompt, of which two prompts share those that are wholly "+
				"equal; later blocks are longer",
			"prefix_cache：提示词最前面各块的长度，两个提示词只共享完全相同的块；后面的块更长",
		),
		Field: func(s any) any { return &s.(*CacheConfig).BlockBytes },
	},
	{
		Name: "prefix.cache_tokens", Type: setting.Integer, Min: 0, Max: 1e9, Default: "0",
		Title: setting.Doc("Tokens of a KV cache", "KV cache 的 token 数"),
		Meaning: setting.Doc(
			"prefix_cache: tokens that the KV cache of an endpoint of weight 1 holds, to show which share "+
				"of them the index of prompts has room for; vLLM: `num_gpu_blocks` × `block_size`; 0: unknown",
			"prefix_cache：权重为 1 的端点的 KV cache 能容纳多少 token，用于显示索引容得下其中多大比例；vLLM："+
				"`num_gpu_blocks` × `block_size`；0：未知",
		),
		Field: func(s any) any { return &s.(*CacheConfig).CacheTokens },
	},
	{
		Name: "slo.ttft", Type: setting.Duration, Min: 0, Max: setting.Hour, Default: "0",
		Title: setting.Doc("Time to the first token", "首 token 时间"),
		Meaning: setting.Doc(
			"prefix_cache: how soon the first token of a stream is to come: endpoints that have too many requests in "+
				"flight for it cost more, the later the more; 0: any time. With `slo.ttft` or `slo.tpot` set, the "+
				"headers `x-slo-ttft-ms` and `x-slo-tpot-ms` of a request go before them",
			"prefix_cache：流的第一个 token 应在多长时间内到达：在途请求过多而做不到的端点代价更高，越晚越高；0：不限。"+
				"设置了 `slo.ttft` 或 `slo.tpot` 时，请求头 `x-slo-ttft-ms` 和 `x-slo-tpot-ms` 优先于它们",
		),
		Field: func(s any) any { return &s.(*CacheConfig).Target.TTFT },
	},
	{
		Name: "slo.tpot", Type: setting.Duration, Min: 0, Max: setting.Minute, Default: "0",
		Title: setting.Doc("Time per output token", "每个输出 token 的时间"),
		Meaning: setting.Doc(
			"prefix_cache: how long each token behind the first may take, as `slo.ttft`; 0: any time",
			"prefix_cache：第一个之后的每个 token 最多应耗时多久，规则同 `slo.ttft`；0：不限",
		),
		Field: func(s any) any { return &s.(*CacheConfig).Target.PerToken },
	},
	{
		Name: "prefix.tenant_header", Type: setting.Text,
		Title: setting.Doc("Tenant header", "租户请求头"),
		Meaning: setting.Doc(
			"prefix_cache: requests with different values of this header share no prefix, and get a fair "+
				"part of the index each. A proxy in front must set it",
			"prefix_cache：此请求头取值不同的请求不共享前缀，并各自公平占有索引的一部分。须由前面的代理设置",
		),
		Field: func(s any) any { return &s.(*CacheConfig).TenantHeader },
	},
	{
		Name: "prefix.secret", Type: setting.Secret,
		Title: setting.Doc("Secret", "密钥"),
		Meaning: setting.Doc(
			"prefix_cache: keys of prompts cannot be forged without it; the same in all gateways. "+
				"Default: derived from the Redis password, or random",
			"prefix_cache：没有它就无法伪造提示词的键；所有网关须相同。默认由 Redis 密码推导，或随机生成",
		),
		Field: func(s any) any { return (*string)(&s.(*CacheConfig).Secret) },
	},
}

// check completes the settings: a TTL that is too short counts as the shortest.
func (c *CacheConfig) check(r setting.Report) {
	c.Objective.check(r)
	if c.TTL < minConfigTTL {
		r.Warning(keyTTL, "got "+seconds(c.TTL)+", taken as "+seconds(minConfigTTL)+
			": what is in use is recorded again only every 30 s")
		c.TTL = minConfigTTL
	}
}

func seconds(d time.Duration) string { return strconv.Itoa(int(d / time.Second)) }

// prefixCache is prefix_cache: the endpoint with the longest match of the prompt in its KV cache, unless the work in
// flight there costs more than computing the prompt elsewhere. Load is in tokens. Without a match it is
// global_least_request.
//
// A match earns a credit in tokens of load. So a prompt moves to another endpoint as soon as those that have it carry
// that much more load than the others; afterwards that endpoint has it too. The credit is lower for a prefix that many
// requests share, and higher while requests wait at all endpoints and where caches evict early: see package cache.
type prefixCache struct {
	*leastRequest
	cache   CacheConfig
	caches  *cache.Tracker
	summary cache.Summary
	homes   homes
	engines *engines.Samples
	engine  *engines.Config
}

func newPrefixCache(c Config) (lb.Policy, error) {
	cache := *c.Settings.(*CacheConfig)
	cache.TTL = min(cache.TTL, lb.MaxTTL)
	if c.Push != push.Blind {
		c.Engine.Weights.Queue = 0 // caps keep requests from waiting in engines: to charge for it scatters prompts
	}
	return &prefixCache{
		leastRequest: newLeastRequestIn(c, lb.Tokens), cache: cache, caches: c.Caches,
		engines: c.Engines, engine: c.Engines.OneConfig(&c.Engine),
	}, nil
}

// Plan makes every healthy endpoint a candidate at the cost of its load and engine sample, less the credit for its
// match.
func (p *prefixCache) Plan(now time.Duration, r *lb.Request, v *lb.View) (lb.Plan, lb.Reason) {
	if r.Idle {
		return p.leastRequest.Plan(now, r, v)
	}
	plan, reason := p.basePlan(now, r, v)
	if reason != lb.ReasonChosen {
		return plan, reason
	}
	plan.List, _ = p.engines.ApplyCosts(now, &plan, p.engine, r.Model, p.cluster.HasWeights(v))
	plan.List = p.caches.Paced(now, plan.List, p.engine.Weights.Queue, p.cache.Objective.token())
	p.aim(now, r, &plan)
	p.caches.Summarize(now, p.cache.TTL, plan.Candidates, &p.summary)
	tier, size := p.finish(now, r, &plan, v)
	plan.PerRequest, plan.Stall = p.caches.PerRequest(), p.cache.Objective.stall(r.PromptTokens)
	plan.Prefix = p.prefix(now, r, tier, size)
	if r.Session != 0 && p.cache.SessionAffinity {
		plan.Home.Order = p.homes.order(now, r.Session, plan.List, tier, v, p.cluster)
	}
	return plan, lb.ReasonChosen
}

// aim has the candidates cost more where answers would be later than is wanted.
func (p *prefixCache) aim(now time.Duration, r *lb.Request, plan *lb.Plan) {
	target := r.Target.Or(p.cache.Target)
	if r.AnyTime || target == (lb.Target{}) {
		return
	}
	list := p.caches.InTime(now, plan.List, r, target)
	if list.Digest() != plan.Digest() {
		plan.List, plan.Target = list, target
	}
}

// prefix returns the prefix of a plan for the request, which is for a tier of so many endpoints.
func (p *prefixCache) prefix(now time.Duration, r *lb.Request, tier uint8, endpoints int) lb.Prefix {
	var credits []uint32
	own := p.summary.OwnGain(tier, p.cache.TTL)
	if r.Trial {
		credits = p.caches.TryCreditBytes(now, r.Blocks, endpoints, own)
	} else {
		p.caches.CountRequest(now)
		credits = p.caches.CreditBytes(r.Blocks, endpoints, own)
	}
	saved := r.PromptTokens // by a full match
	if r.BypassCache {
		saved = 0
	}
	return lb.Prefix{
		Blocks: r.Blocks, Bytes: r.PromptBytes, Tokens: saved,
		Credit:       p.cache.Credit * p.summary.DisplacementFactor(p.cache.TTL) * float64(saved),
		CreditGrowth: p.summary.CreditGrowthOf(tier),
		CreditBytes:  credits,
		Takes:        max(1, p.caches.PrefillTime(r.ModelName, saved)),
		TTL:          p.summary.TTL, ShortTTL: p.summary.ShortTTL,
		IndexMemory: p.cache.IndexMemory,
	}
}

// Observe passes the outcome to the cluster's health and to its cache tracker.
func (p *prefixCache) Observe(now time.Duration, o lb.Outcome) {
	p.leastRequest.Observe(now, o)
	p.caches.Observe(now, p.cache.TTL, o)
}
