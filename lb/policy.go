package lb

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/warmgate/warmgate/internal/order"
	"github.com/warmgate/warmgate/lb/prompt"
)

// Policy turns one request and one view of the endpoints into a plan. It does no I/O and reads no clock: the same
// sequence of plans and observations gives the same plan. A policy serves one cluster.
type Policy interface {
	// Plan returns the plan and ReasonChosen, or the reason for falling back to native balancing.
	Plan(now time.Duration, r *Request, v *View) (Plan, Reason)
	// Observe reports how a request ended on the endpoint that served it.
	Observe(now time.Duration, o Outcome)
}

// Request is what a policy may know of a request.
type Request struct {
	PromptTokens int64          // estimated tokens of the prompt
	OutputTokens int64          // estimated tokens of the answer
	Model        string         // name of the model, for endpoint_metrics
	Blocks       []prompt.Block // prefix blocks of the prompt, for prefix_cache
	PromptBytes  int            // length of the prompt in bytes, as in Block.End
	BypassCache  bool           // the engine computes the whole prompt, whatever is in its KV cache
	Session      uint64         // digest of the key of its session, 0 for none
	Idle         bool           // it computes nothing, or nothing here: see [prompt.Call]
	ModelID      uint64         // digest of the model's name and the path, 0 if it is not known
	ModelName    uint64         // that of the name alone: see [ModelName]
	Length       int64          // of the prompt and the wanted answer, in bytes, 0 if unknown; for [ModelFacts]
	Random       uint64         // random bits, so that a plan depends on its inputs only; see [Health.Candidates]
}

// Config is what a policy is built from. A policy serves one cluster, or chooses among several. Health, Facts, Caches,
// Engines, Shares, Limits and Latencies are of the cluster and are shared by all its policies, so that they survive a
// change of the configuration.
type Config struct {
	Unit    Unit
	Cluster ClusterConfig

	// Push is when an endpoint takes another request. With [Pending], PushAhead is how many requests beyond its push
	// limit an endpoint may have at hand.
	Push      Push
	PushAhead int

	// Settings are those of the policy's own keys, of the type that its [Descriptor.Settings] returns; nil for the zero
	// value. The policy does not change them.
	Settings any
	// Engine is how prefix_cache, which has other settings, turns engine samples into costs, and how long they count
	// for push limits. The settings of endpoint_metrics are an EngineConfig.
	Engine EngineConfig

	Health    *Health        // for all policies
	Facts     *ModelFacts    // for all policies; nil for none
	Caches    *CacheTracker  // for prefix_cache
	Engines   *Engines       // for endpoint_metrics and prefix_cache
	Shares    *RequestShares // for endpoint_metrics and cluster_metrics
	Limits    *PushLimits    // for all policies with Pending; nil for none
	Latencies *Latencies     // for cluster_metrics
}

// New returns the policy with the given name for one cluster, or an error that lists the known names. It panics if the
// settings are of another policy's type.
func New(name string, c Config) (Policy, error) {
	d := Describe(name)
	if d.New == nil {
		return nil, errors.New("lb: unknown policy " + strconv.Quote(name) + ", known: " + strings.Join(Names(), ", "))
	}
	if c.Settings == nil && d.Settings != nil {
		c.Settings = d.Settings()
	}
	return d.New(c)
}

// Names returns the names of the policies, sorted, without aliases.
func Names() []string {
	var names []string
	for _, d := range registry {
		names = append(names, d.Name)
	}
	order.Up(names)
	return names
}
