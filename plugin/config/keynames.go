package config

import "github.com/warmgate/warmgate/lb/policy"

// section is the section that most keys are in, with its dot.
const section = "lb_config."

// The names of keys that several files use.

// The keys of what counts as load, and of where a request says how much it is.
const (
	keyUnit       = "lb_config.unit"
	keyOutputFrom = "lb_config.output_tokens_from"
)

// keyZones is the key that only has an effect where zones are known.
const keyZones = "lb_config.zone_penalty"

// keySubset is the key of who says to which endpoints a request is limited.
const keySubset = "lb_config.subset_hint"

// The keys of what is measured of requests.
const (
	keyTelemetry   = "lb_config.telemetry.enabled"
	keyReadAnswers = "lb_config.telemetry.read_answers"
)

// The keys of caps and of the queue.
const (
	keyMaxInflight       = "lb_config.max_inflight"
	keyMaxInflightTokens = "lb_config.max_inflight_tokens"
	keyPush              = "lb_config.push"
	keyPushAhead         = "lb_config.push_ahead"
	keyMaxWait           = "lb_config.queue.max_wait"
	keyFromZero          = "lb_config.queue.from_zero"
	keyClasses           = "lb_config.queue.classes"
	keyClassHeader       = "lb_config.queue.class_header"
	keyDefaultClass      = "lb_config.queue.default_class"
	keyPriority          = "lb_config.queue.priority_from"
	keyFirstTurn         = "lb_config.queue.first_turn_class"
	keyLaterTurn         = "lb_config.queue.later_turn_class"
	keyFairBy            = "lb_config.queue.fair_by"
	keyTenantShare       = "lb_config.queue.tenant_max_share"
)

// keyAdmin is the key by which stock Envoy's endpoints are found, of one cluster or of several.
const keyAdmin = "lb_config.envoy.admin_cluster"

// The keys of lb_type cluster that no policy owns.
const (
	keyClusters      = "lb_config.service_list"
	keyClusterHeader = "lb_config.cluster_header"
	keyFirst         = "lb_config.first_clusters"
	keyHashClusters  = "lb_config.clusters"
	keyNested        = "lb_config.endpoint"
)

// The keys of regions.
const (
	keyRegionName    = "lb_config.regions.name"
	keyRegionCluster = "lb_config.regions.cluster"
	keyPeers         = "lb_config.regions.peers"
	keyRegionSecret  = "lb_config.regions.secret"
	keyRegionBefore  = "lb_config.regions.previous_secret"
	keyAllowed       = "lb_config.regions.allowed"
	keyGone          = "lb_config.regions.gone"
	keySteady        = "lb_config.regions.steady"
)

// The keys of the admission API.
const (
	keyAPIPath  = "lb_config.api.path"
	keyAPIToken = "lb_config.api.token"
	keyAPIOnly  = "lb_config.api.only"
	keyCallers  = "lb_config.api.callers"
	keyLeaseTTL = "lb_config.api.lease_ttl"
	keyMaxHint  = "lb_config.api.max_wait_hint"
)

// The keys of what the gateway shows of itself.
const (
	keyInspectPath  = "lb_config.inspect.path"
	keyInspectToken = "lb_config.inspect.token"
)

// The keys of where a session's key is.
const (
	keySession    = section + policy.KeySession
	keyHashHeader = section + "hash_header"
)

// The keys of metrics of engines.
const (
	keyMetricsCluster = "lb_config.envoy.metrics_cluster"
	keyMetricsEngine  = "lb_config.metrics.engine"
	keyMetricsPath    = "lb_config.metrics.path"
	keyMetricsPort    = "lb_config.metrics.port"
	keyORCA           = "lb_config.metrics.orca"
	keyStaleAfter     = "lb_config.metrics.stale_after"
	keyLoRA           = "lb_config.metrics.weights.lora"
	keyEngine         = "lb_config.engine"
)

// The keys of servers with data parallelism.
const (
	keyRanks     = "lb_config.ranks.enabled"
	keyRankCount = "lb_config.ranks.count"
)

// The keys that name a Redis, and those that mean something only with one.
const (
	keyStore   = "lb_config.store"
	keyService = "lb_config.serviceFQDN"
	keyTunnel  = "lb_config.envoy.redis_cluster"
	keyPort    = "lb_config.servicePort"
	keyTimeout = "lb_config.timeout"

	keyPassword = "lb_config.password"
)
