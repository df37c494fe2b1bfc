package health

import (
	"maps"
	"math"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// ClusterConfig is the configuration of a cluster's endpoints.
type ClusterConfig struct {
	Unit              lb.Unit            // of load
	MaxInflight       int64              // requests in flight per endpoint and unit of configured weight; 0 for no cap
	MaxInflightTokens int64              // tokens in flight, likewise
	ZonePenalty       float64            // cost of an endpoint in another zone, in requests in flight
	Weights           map[string]float64 // by address; takes precedence over the gateway's weights
	Health            Config
}

// Weight returns the endpoint's weight: the configured one, else the gateway's, else 1. Each rank has its server's.
func (cfg *ClusterConfig) Weight(e *lb.Endpoint) float64 {
	weight := e.Weight
	if w, ok := cfg.Weights[lb.ServerOf(e.Addr)]; ok {
		weight = w
	}
	if weight <= 0 {
		return 1
	}
	return weight
}

// HasWeights reports whether weights are configured, here or in the gateway. Equal weights of the gateway do not count.
func (cfg *ClusterConfig) HasWeights(v *lb.View) bool {
	if len(cfg.Weights) > 0 {
		return true
	}
	for i := range v.Endpoints {
		if cfg.Weight(&v.Endpoints[i]) != cfg.Weight(&v.Endpoints[0]) {
			return true
		}
	}
	return false
}

// Equal reports whether all fields are equal, maps by their content.
func (cfg *ClusterConfig) Equal(other *ClusterConfig) bool {
	return cfg.Unit == other.Unit && cfg.MaxInflight == other.MaxInflight &&
		cfg.MaxInflightTokens == other.MaxInflightTokens && cfg.ZonePenalty == other.ZonePenalty &&
		cfg.Health == other.Health && maps.Equal(cfg.Weights, other.Weights)
}

// newCandidate returns what load costs on the endpoint while it is healthy.
func (cfg *ClusterConfig) newCandidate(e *lb.Endpoint) lb.Candidate {
	c := lb.Candidate{Addr: e.Addr, Slope: 1, Weight: cfg.Weight(e)}
	c.Cap, c.TokenCap = capOf(cfg.MaxInflight, c.Weight), capOf(cfg.MaxInflightTokens, c.Weight)
	return c
}

// capOf returns the cap of an endpoint of the weight, 0 for none.
func capOf(perWeight int64, weight float64) int64 {
	if perWeight <= 0 {
		return 0
	}
	return max(1, int64(math.Round(float64(perWeight)*weight)))
}

// Config configures passive health checking. The zero value of a field disables that part.
type Config struct {
	// failures that eject an endpoint, if each has full weight and no success lowers it
	ConsecutiveFailures int
	EjectionTime        time.Duration // of the first ejection; doubles with each further one
	MaxEjectionTime     time.Duration // the longest ejection
	MaxEjectionPercent  int           // percent of the endpoints that may be ejected at once; at least one may
	SlowStart           time.Duration // in which a new or returned endpoint reaches its full share of requests
	PanicThreshold      int           // percent of usable endpoints below which native balancing decides
	FirstWait           time.Duration // in which PanicThreshold does not count for a view's first endpoints
	EjectsAll           bool          // all may be ejected, if MaxEjectionPercent allows that: native balancing decides
}
