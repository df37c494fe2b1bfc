package policy

import (
	"errors"
	"strconv"
	"strings"

	"github.com/warmgate/warmgate/internal/order"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/cache"
	"github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/lb/health"
	"github.com/warmgate/warmgate/lb/models"
	"github.com/warmgate/warmgate/lb/push"
)

// Config is what a policy is built from. A policy serves one cluster, or chooses among several. Health, Facts, Caches,
// Engines, Shares, Limits and Latencies are of the cluster and are shared by all its policies, so that they survive a
// change of the configuration.
type Config struct {
	Unit    lb.Unit
	Cluster health.ClusterConfig

	// Push is when an endpoint takes another request. With [push.Pending], PushAhead is how many requests beyond its
	// push limit an endpoint may have at hand.
	Push      push.Kind
	PushAhead int

	// Affinity is what an endpoint costs at most where a request's model rather is not, in typical requests; 0: no
	// matter which model it is for.
	Affinity float64

	// Settings are those of the policy's own keys, of the type that its [Descriptor.Settings] returns; nil for the zero
	// value. The policy does not change them.
	Settings any
	// Engine is how prefix_cache, which has other settings, turns engine samples into costs, and how long they count
	// for push limits. The settings of endpoint_metrics are an engines.Config.
	Engine engines.Config

	Health    *health.Health   // for all policies
	Facts     *models.Facts    // for all policies; nil for none
	Caches    *cache.Tracker   // for prefix_cache
	Engines   *engines.Samples // for endpoint_metrics and prefix_cache
	Shares    *RequestShares   // for endpoint_metrics and cluster_metrics
	Limits    *push.Limits     // for all policies with Pending; nil for none
	Latencies *Latencies       // for cluster_metrics
	Overrides *lb.Overrides    // for token_budget; nil for none
}

// New returns the policy with the given name for one cluster, or an error that lists the known names. It panics if the
// settings are of another policy's type.
func New(name string, c Config) (lb.Policy, error) {
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
