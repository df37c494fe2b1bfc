// Package config reads the plugin's configuration: JSON as the gateway hands it over, checked strictly and turned
// into one [Config] per rule. It does no I/O, reads no clock and calls no gateway.
//
// The names and meanings of the keys are those of Higress's ai-load-balancer where it has them; keys of our own are
// in snake_case. [Keys] lists every key with its default; the keys of a policy are described in package lb. A number is
// in milliseconds where a duration is expected and in bytes where a size is; a string contains its unit: "20ms",
// "256KiB".
//
// No key is ignored silently. A key that is unknown, written twice, of the wrong type or out of bounds is an error of
// the rule that contains it, or of the global part, and of no other; the error contains every problem, so that one push
// is enough to correct all of them. [Update] replaces a part that fails by its last good form. Higress's own keys
// accept what its plugin accepts. Values that are accepted but have no effect, or another meaning than they seem to
// have, are reported by [Set.Warnings]. Neither errors nor warnings repeat a password.
package config

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/lb/push"
)

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
	Refused bool   // there is no good configuration for these requests: only ID is set as well
	Enabled bool   // false: native balancing takes every request
	Type    string // what the candidates are: "endpoint", those of one cluster, or "cluster"
	Policy  string // name of the policy; may be empty when Enabled is false

	Clusters Clusters // to choose among, with the type "cluster"

	Unit              lb.Unit   // what counts as load
	MaxInflight       int       // requests in flight per endpoint of weight 1, 0 for no cap
	MaxInflightTokens int       // tokens in flight, likewise
	Push              push.Kind // when an endpoint takes another request
	PushAhead         int       // requests that an endpoint may have beyond that, for push.Pending
	Overload          Overload
	Queue             Queue
	Weights           map[string]float64 // by "ip:port" or cluster, in place of the gateway's; nil when none is set
	ZonePenalty       float64            // cost of another zone than the gateway's, in requests in flight
	Health            Health
	SubsetHint        string // who says to which endpoints a request is limited: SubsetNone and so on

	MaxInspectBytes  int           // how much of a request body is read for the decision
	MaxScanBytes     int           // how much of a longer one is searched for what else decides
	BodyTimeout      time.Duration // how long a request waits for its body before the headers decide
	OutputFrom       []Source      // where a request says how many tokens it expects of the answer; empty: nowhere
	OutputTokens     int           // tokens expected of an answer, and of a prompt that cannot be read
	MaxRequestTokens int           // upper limit of the tokens that one request counts for
	BytesPerToken    float64       // bytes of prompt text that make one token

	Session   []Source           // where the key of a request's session is, the first that it has
	Regions   Regions            // to whose gateways requests may be forwarded
	API       API                // where requests are admitted that their senders send themselves
	Telemetry Telemetry          // what is told of requests
	Inspect   Inspect            // where the gateway shows what it knows
	Prefix    policy.CacheConfig // for policies that read prompts
	Engines   Engines            // for policies that use metrics of engines
	Models    Models             // how it is read which models endpoints have
	Ranks     Ranks              // of servers with data parallelism
	Prices    Prices             // what tokens cost

	own map[string]any // settings that are neither in Prefix nor in Engines, by policy: see Settings

	DebugHeaders bool // answer with x-warmgate-* headers
	Shadow       bool // decide and count, but let the gateway route
	DetailLog    bool // log each decision

	EnvoyCfg EnvoySource // where endpoints come from on stock Envoy

	Store          StoreKind     // where work in flight is counted
	ReserveTimeout time.Duration // how long a request waits for Redis
	Redis          Redis         // unused unless Store is StoreRedis

	maxRequestCount int                // Higress's name for MaxInflight, merged into it by check
	hashHeader      string             // Higress's name for a source in Session, merged into it by check
	engine          string             // Higress's name for Engines.Engine, merged into it by check
	named           []string           // keys of Weights that are no addresses, until check
	nested          *nested            // lb_config.endpoint, until check
	shares          map[string]float64 // weights of lb_config.clusters, until check
}

// Overload is the answer to a request that is refused.
type Overload struct {
	Status     int           // HTTP status
	RetryAfter time.Duration // Retry-After while no rate is known, rounded up to seconds; 0 omits the header
}

// Health is when an endpoint that fails requests is ejected, and how it returns.
type Health struct {
	ConsecutiveFailures int           // failures in a row that eject an endpoint, 0 to never eject
	EjectionTime        time.Duration // length of the first ejection; each further one is longer
	MaxEjectionTime     time.Duration // longest ejection
	MaxEjectionPercent  int           // share of a cluster's endpoints that may be ejected at once
	SlowStart           time.Duration // over which a new or returning endpoint reaches its full share, 0 for at once
	PanicThreshold      int           // percent of healthy endpoints below which native balancing decides, 0 for never
}

// EnvoySource is where the endpoints of a cluster come from on stock Envoy. Exactly one of AdminCluster and Endpoints
// is set.
type EnvoySource struct {
	AdminCluster string        // name of the cluster that leads to Envoy's own admin interface
	PollInterval time.Duration // how often it is polled
	Endpoints    []StaticEndpoint
}

// StaticEndpoint is an endpoint written into the configuration.
type StaticEndpoint struct {
	Addr   string  // "ip:port", IPv6 in brackets and in its canonical form
	Weight float64 // above 0
}

// Ranks is whether ranks of servers are told apart.
type Ranks struct {
	Enabled bool
	Count   int  // of each server, 0 for what its metrics show
	Apart   bool // it is enabled, and can be done
}

// What SubsetHint may be.
const (
	SubsetNone     = "none"
	SubsetHeader   = "header"
	SubsetMetadata = "metadata"
)

const (
	typeEndpoint = "endpoint"
	typeCluster  = "cluster"
)
