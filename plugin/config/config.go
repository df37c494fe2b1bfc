// Package config reads the plugin's configuration: JSON as the gateway hands it over, checked strictly and turned into
// one [Config] per rule. It does no I/O, reads no clock and calls no gateway.
//
// The names and meanings of the keys are those of Higress's ai-load-balancer where it has them; keys of our own are in
// snake_case. [Keys] lists every key with its default. A number stands for milliseconds where a duration is expected
// and for bytes where a size is; a string carries its unit: "20ms", "256KiB".
//
// Nothing is ignored silently. A key that is unknown, written twice, of the wrong type or out of bounds fails the whole
// configuration, and the error names every problem at once, so that one push is enough to put it right. What is
// accepted but has no effect is reported by [Set.Warnings]. Neither errors nor warnings ever repeat a password.
package config

import "time"

// Host is the kind of gateway the plugin runs in. Some keys are only valid on one of them.
type Host int

// The gateways.
const (
	Higress Host = iota // Higress, or another Envoy with its host calls
	Envoy               // stock Envoy
)

// Config is the configuration of one rule, or of the global part. It must not be changed once parsed.
type Config struct {
	ID      int    // 0 for the global part, i for the i-th entry of `_rules_`, counted from 1
	Enabled bool   // false leaves every request to the gateway's native balancing
	Type    string // "endpoint": the candidates are the endpoints of one cluster
	Policy  string // name of the policy; may be empty when Enabled is false

	Unit        string // what counts as load: "requests" or "tokens"
	MaxInflight int    // requests in flight per endpoint of weight 1, 0 for no cap
	Overload    Overload
	Weights     map[string]float64 // capacity by "ip:port", over what the gateway says; nil when none is set
	ZonePenalty float64            // requests in flight that another zone than the gateway's outweighs
	Health      Health

	MaxInspectBytes  int           // how much of a request body is read for the decision
	BodyTimeout      time.Duration // how long a request waits for its body before the headers decide
	OutputTokens     int           // tokens expected of an answer, and of a prompt that has not come yet
	MaxRequestTokens int           // the most tokens that one request counts for
	BytesPerToken    float64       // bytes of prompt text that make one token

	Prefix  Prefix  // for prefix_cache
	Engines Engines // for endpoint_metrics, and for prefix_cache

	DebugHeaders bool // answer with x-warmgate-* headers
	Shadow       bool // decide and count, but let the gateway route
	DetailLog    bool // log each decision

	EnvoyCfg EnvoySource // where endpoints come from on stock Envoy

	Store          string        // where work in flight is counted: "local" or "redis"
	ReserveTimeout time.Duration // how long a request waits for Redis
	Redis          Redis         // means nothing unless Store is "redis"

	maxRequestCount int // Higress's name for MaxInflight, merged into it by check
}

// Prefix says how prompts are told apart and what it is worth to have one cached.
type Prefix struct {
	BlockBytes   int     // length of the first blocks
	Credit       float64 // tokens of load that one cached token is worth
	TTLSeconds   int     // how long an endpoint is taken to keep a prompt
	TableBytes   int     // of the gateway's memory for who has what
	RedisBytes   int     // of the memory of Redis for who has what, for each cluster
	CacheTokens  int     // that the KV cache of an endpoint of weight 1 holds, 0 if that is not known
	Secret       string  // without which nobody can forge or read keys; "" for one that is found without the configuration
	TenantHeader string  // prompts of requests with different values share nothing; "" for none
}

// Overload is the answer to a request for which every endpoint is at its cap.
type Overload struct {
	Status     int           // HTTP status
	RetryAfter time.Duration // told to the client in whole seconds, rounded up; 0 leaves the header out
}

// Health says when an endpoint that fails requests stops getting them, and how it comes back.
type Health struct {
	ConsecutiveFailures int           // failures in a row that eject an endpoint, 0 to never eject
	EjectionTime        time.Duration // length of the first ejection; each further one is longer
	MaxEjectionTime     time.Duration // longest ejection
	MaxEjectionPercent  int           // share of a cluster's endpoints that may be ejected at once
	SlowStart           time.Duration // time over which a new or returning endpoint reaches its full share, 0 for at once
	PanicThreshold      int           // percent of healthy endpoints below which native balancing decides, 0 for never
}

// EnvoySource says how the endpoints of a cluster are found on stock Envoy. Exactly one of AdminCluster and Endpoints
// is set.
type EnvoySource struct {
	AdminCluster string        // name of the cluster that leads to Envoy's own admin interface
	PollInterval time.Duration // how often it is asked
	Endpoints    []StaticEndpoint
}

// StaticEndpoint is an endpoint written into the configuration.
type StaticEndpoint struct {
	Addr   string  // "ip:port", IPv6 in brackets and in its canonical form
	Weight float64 // above 0
}
