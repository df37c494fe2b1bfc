package config

import (
	"slices"
	"time"
)

// Key documents one key of the configuration.
type Key struct {
	Name    string // full path, as in errors: "lb_config.health.slow_start"
	Type    string // what is accepted
	Default string // JSON text; "" for none
	Meaning string // one sentence
}

// Keys returns every key that is accepted, in the order of the documentation.
func Keys() []Key {
	list := make([]Key, len(keys))
	for i := range keys {
		list[i] = keys[i].Key
	}
	return list
}

// key is a key and what happens when it is met. set is nil for the keys of `_rules_`, which are no part of a Config.
type key struct {
	Key
	set  setter
	only only
	idle string // why the key has no effect here, "" when it has
}

// only restricts a key to one kind of gateway.
type only uint8

const (
	onAny only = iota
	onEnvoy
)

// keyZones names the key that only means something where zones are known.
const keyZones = "lb_config.zone_penalty"

const millisType = "duration (number: ms)"

// keys is the one table of the configuration: the parser, the defaults and the documentation all read it.
var keys = slices.Concat(mainKeys, metricsKeyTable, ruleKeys)

var mainKeys = []key{
	{
		Key{"enabled", "boolean", "true", "`false` leaves every request to the gateway's native balancing"},
		boolean(func(c *Config) *bool { return &c.Enabled }), onAny, "",
	},
	{
		Key{"lb_type", "string", `"endpoint"`, "What is chosen among; `endpoint`: the endpoints of the request's cluster"},
		lbType, onAny, "",
	},
	{
		Key{"lb_policy", "string", "", "How the choice is made; required. `global_least_request`: least work in flight over all workers; `prefix_cache`: where the prompt's beginning is in the KV cache, unless it is too busy there; `endpoint_metrics`, or `metrics_based`: by what the engines tell of themselves"},
		choice(func(c *Config) *string { return &c.Policy }, append(policies, rivals...)...), onAny, "",
	},

	{
		Key{"lb_config.unit", "string", `"requests"`, "What counts as work: `requests`, or `tokens` (prompt and expected output); with prefix_cache always `tokens`"},
		choice(func(c *Config) *string { return &c.Unit }, "requests", "tokens"), onAny, "",
	},
	{
		Key{"lb_config.max_inflight", "integer", "0", "Requests in flight per endpoint of weight 1 above which requests are shed; 0: no cap"},
		integer(0, 1e6, func(c *Config) *int { return &c.MaxInflight }), onAny, "",
	},
	{
		Key{"lb_config.maxRequestCount", "integer", "", "Higress's name for `max_inflight`"},
		looseInteger(0, 1e6, func(c *Config) *int { return &c.maxRequestCount }), onAny, "",
	},
	{
		Key{"lb_config.overload.status", "integer", "429", "Status of the answer when every endpoint is at its cap"},
		integer(400, 599, func(c *Config) *int { return &c.Overload.Status }), onAny, "",
	},
	{
		Key{"lb_config.overload.retry_after", millisType, `"1s"`, "Retry-After of that answer, rounded up to seconds; 0: none"},
		duration(0, time.Hour, func(c *Config) *time.Duration { return &c.Overload.RetryAfter }), onAny, "",
	},
	{
		Key{"lb_config.weights", "object", "", "Capacity of an endpoint relative to the others, by `ip:port`; over what the gateway says"},
		setWeights, onAny, "",
	},
	{
		Key{keyZones, "number", "0", "Stock Envoy: an endpoint in another zone than the gateway costs as if it had this many more requests in flight (`unit: tokens`: of usual length); 0: zones do not matter"},
		number(0, 1e6, func(c *Config) *float64 { return &c.ZonePenalty }), onEnvoy, "",
	},

	{
		Key{"lb_config.health.consecutive_failures", "integer", "5", "Failures that eject an endpoint when such requests fail nowhere else; 0: never"},
		integer(0, 1000, func(c *Config) *int { return &c.Health.ConsecutiveFailures }), onAny, "",
	},
	{
		Key{"lb_config.health.ejection_time", millisType, `"10s"`, "Length of the first ejection; each further one is longer"},
		duration(100*time.Millisecond, time.Hour, func(c *Config) *time.Duration { return &c.Health.EjectionTime }), onAny, "",
	},
	{
		Key{"lb_config.health.max_ejection_time", millisType, `"300s"`, "Longest ejection"},
		duration(100*time.Millisecond, 24*time.Hour, func(c *Config) *time.Duration { return &c.Health.MaxEjectionTime }), onAny, "",
	},
	{
		Key{"lb_config.health.max_ejection_percent", "integer", "50", "Share of a cluster's endpoints that may be ejected at once"},
		integer(0, 100, func(c *Config) *int { return &c.Health.MaxEjectionPercent }), onAny, "",
	},
	{
		Key{"lb_config.health.slow_start", millisType, `"30s"`, "Time over which the share of a new or returning endpoint grows evenly to a full one, from 5 % on; 0: at once"},
		duration(0, time.Hour, func(c *Config) *time.Duration { return &c.Health.SlowStart }), onAny, "",
	},
	{
		Key{"lb_config.health.panic_threshold", "integer", "50", "Percent of a priority's endpoints that must be healthy or degraded, else the gateway decides while all priorities together are too few; 0: never"},
		integer(0, 100, func(c *Config) *int { return &c.Health.PanicThreshold }), onAny, "",
	},

	{
		Key{"lb_config.max_inspect_bytes", "size (number: bytes)", "262144", "How much of a request body is read for the decision"},
		size(1<<10, 8<<20, func(c *Config) *int { return &c.MaxInspectBytes }), onAny, "",
	},
	{
		Key{"lb_config.body_timeout", millisType, `"250ms"`, "How long a request waits for its body before the headers decide"},
		duration(time.Millisecond, time.Minute, func(c *Config) *time.Duration { return &c.BodyTimeout }), onAny, "",
	},
	{
		Key{"lb_config.output_tokens", "integer", "256", "Tokens expected of an answer, and of a prompt that cannot be read, until usage in answers shows them"},
		integer(0, 1e6, func(c *Config) *int { return &c.OutputTokens }), onAny, "",
	},
	{
		Key{"lb_config.max_request_tokens", "integer", "131072", "The most tokens that one request counts for, whatever it asks for"},
		integer(1, 1<<30, func(c *Config) *int { return &c.MaxRequestTokens }), onAny, "",
	},
	{
		Key{"lb_config.bytes_per_token", "number", "4", "Bytes of prompt text that make one token, until usage in answers shows it"},
		number(0.1, 100, func(c *Config) *float64 { return &c.BytesPerToken }), onAny, "",
	},

	{
		Key{"lb_config.prefix.block_bytes", "size (number: bytes)", "512", "prefix_cache: length of the first blocks of a prompt, within which a difference is not noticed"},
		size(64, 64<<10, func(c *Config) *int { return &c.Prefix.BlockBytes }), onAny, "",
	},
	{
		Key{"lb_config.prefix.credit", "number", "2", "prefix_cache: how many tokens of load one cached token of the prompt outweighs, more while requests wait or caches evict, less for prompts that more requests begin with than one endpoint can serve; 0: none"},
		number(0, 1000, func(c *Config) *float64 { return &c.Prefix.Credit }), onAny, "",
	},
	{
		Key{"lb_config.prefix.table_bytes", "size (number: bytes)", "8388608", "prefix_cache: how much of its memory a gateway may use to remember who has what"},
		size(64<<10, 1<<30, func(c *Config) *int { return &c.Prefix.TableBytes }), onAny, "",
	},
	{
		Key{"lb_config.prefix.redis_bytes", "size (number: bytes)", "67108864", "prefix_cache: how much memory of Redis each cluster may use for that; the same in all gateways"},
		size(1<<20, 16<<30, func(c *Config) *int { return &c.Prefix.RedisBytes }), onAny, "",
	},
	{
		Key{"lb_config.prefix.cache_tokens", "integer", "0", "prefix_cache: tokens that the KV cache of an endpoint of weight 1 holds, to show which share of them can be remembered; vLLM: `num_gpu_blocks` × `block_size`; 0: unknown"},
		integer(0, 1e9, func(c *Config) *int { return &c.Prefix.CacheTokens }), onAny, "",
	},
	{
		Key{"lb_config.prefix.tenant_header", "string", "", "prefix_cache: requests with different values of this header share no prefix, and get a fair part of the table each. A proxy in front must set it"},
		text(func(c *Config) *string { return &c.Prefix.TenantHeader }), onAny, "",
	},
	{
		Key{"lb_config.prefix.secret", "string", "", "prefix_cache: keys of prompts cannot be forged without it; the same in all gateways. Default: derived from the Redis password, or random"},
		secret(func(c *Config) *string { return &c.Prefix.Secret }), onAny, "",
	},

	{
		Key{"lb_config.debug_headers", "boolean", "false", "Tell endpoint, reason and load in `x-warmgate-*` response headers"},
		boolean(func(c *Config) *bool { return &c.DebugHeaders }), onAny, "",
	},
	{
		Key{"lb_config.shadow", "boolean", "false", "Decide and count, but let the gateway route"},
		boolean(func(c *Config) *bool { return &c.Shadow }), onAny, "",
	},
	{
		Key{"lb_config.enableDetailLog", "boolean", "false", "Log each decision"},
		looseBoolean(func(c *Config) *bool { return &c.DetailLog }), onAny, "",
	},

	{
		Key{"lb_config.envoy.admin_cluster", "string", "", "Stock Envoy: cluster of Envoy's own admin interface, where endpoints are read; this or `endpoints` is required"},
		text(func(c *Config) *string { return &c.EnvoyCfg.AdminCluster }), onEnvoy, "",
	},
	{
		Key{"lb_config.envoy.poll_interval", millisType, `"1s"`, "Stock Envoy: how often the admin interface is read"},
		duration(100*time.Millisecond, time.Minute, func(c *Config) *time.Duration { return &c.EnvoyCfg.PollInterval }), onEnvoy, "",
	},
	{
		Key{"lb_config.envoy.endpoints", "array", "", "Stock Envoy: fixed endpoints, each `\"ip:port\"` or `{\"address\": \"ip:port\", \"weight\": 2}`"},
		setEndpoints, onEnvoy, "",
	},

	{
		Key{"lb_config.store", "string", "", "Where work in flight is counted; `local`: in the gateway's memory, over its workers; `redis`: over all gateways. Default: `redis` if a Redis is named, else `local`"},
		choice(func(c *Config) *string { return &c.Store }, storeLocal, storeRedis), onAny, "",
	},
	{
		Key{"lb_config.reserve_timeout", millisType, `"20ms"`, "How long a request waits for Redis; then the gateway's memory decides"},
		duration(time.Millisecond, 10*time.Second, func(c *Config) *time.Duration { return &c.ReserveTimeout }), onAny, "",
	},
	{
		Key{"lb_config.redis_scope", "string", "", "What is counted together in Redis, by all gateways that give the same name. Default: the cluster's name"},
		text(func(c *Config) *string { return &c.Redis.Scope }), onAny, "",
	},
	{
		Key{"lb_config.envoy.redis_cluster", "string", "", "Stock Envoy: cluster that leads to Redis, `warmgate-redis` in the shipped files"},
		text(func(c *Config) *string { return &c.Redis.Cluster }), onEnvoy, "",
	},
	{
		Key{"lb_config.serviceFQDN", "string", "", "Higress: the Redis service with its suffix, such as `redis.static` or `redis.dns`"},
		serviceName, onAny, "",
	},
	{
		Key{"lb_config.servicePort", "integer", "", "Higress: the port of that service; not set or 0: 80 for `.static`, else 6379"},
		looseName(0, 65535, func(c *Config) *int { return &c.Redis.ServicePort }), onAny, "",
	},
	{
		Key{"lb_config.username", "string", "", "Redis user"},
		looseText(func(c *Config) *string { return &c.Redis.Username }), onAny, "",
	},
	{
		Key{"lb_config.password", "string", "", "Redis password"},
		looseText(func(c *Config) *string { return &c.Redis.Password }), onAny, "",
	},
	{
		Key{"lb_config.timeout", millisType, "3000", "Higress: time limit of the connection to Redis; 0: the default"},
		looseDuration(10*time.Minute, func(c *Config) *time.Duration { return &c.Redis.Timeout }), onAny, "",
	},
	{
		Key{"lb_config.database", "integer", "0", "Redis database"},
		looseName(0, 65535, func(c *Config) *int { return &c.Redis.Database }), onAny, "",
	},

	{
		Key{"lb_config.redisKeyTTL", "integer", "1800", "prefix_cache: seconds that an endpoint is taken to keep a prompt, 64 to 172800 (less or more counts as those), less where answers tell otherwise; 0: the default. Higress's name, also without Redis"},
		looseInteger(0, 1e9, func(c *Config) *int { return &c.Prefix.TTLSeconds }), onAny, "",
	},
	{
		Key{"lb_config.cleanInterval", "integer", "", "Higress: minutes between clean-ups of its Redis table"},
		looseInteger(0, 1e9, unused[int]), onAny, "has no effect: counts are leases here and need no clean-up",
	},
}

var ruleKeys = []key{
	{
		Key{"_rules_", "array", "", "Configurations for some requests only, each with the keys above and at least one of the following; the first that matches holds, else the keys beside `_rules_`"},
		nil, onAny, "",
	},
	{Key{"_rules_[]._match_route_", "array", "", "Names of routes"}, nil, onAny, ""},
	{Key{"_rules_[]._match_route_prefix_", "array", "", "Beginnings of route names"}, nil, onAny, ""},
	{Key{"_rules_[]._match_domain_", "array", "", "Host names, `*.example.com` and `api.*` included"}, nil, onAny, ""},
	{Key{"_rules_[]._match_service_", "array", "", "Services, `name` or `name:port`; on stock Envoy also the name of a cluster"}, nil, onAny, ""},
}

// unused takes the value of a key that is checked but has no place in a Config.
func unused[T any](*Config) *T { return new(T) }
