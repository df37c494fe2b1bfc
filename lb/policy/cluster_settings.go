package policy

import (
	"errors"
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb/setting"
)

// ClusterMetricsConfig is the settings of cluster_metrics.
type ClusterMetricsConfig struct {
	Mode         ClusterMode
	RateLimit    float64 // largest share of the requests of the last 10 s that one cluster gets; 0 and 1: no limit
	QueueSize    int     // answers that a mean latency is of
	HistoryPart  float64 // AdaptiveScore: weight of earlier answers against the latest, from 0 to 1
	Choices      int     // AdaptiveScore: clusters that are compared, drawn at random
	TTFTWeight   float64 // AdaptiveScore: of the time to the first part of the answer
	TotalWeight  float64 // AdaptiveScore: of the time to its end
	ErrorPenalty float64 // AdaptiveScore: how many times as much a cluster costs, in addition, that fails everything
	CooldownMs   int     // AdaptiveScore: for how long a cluster that has failed is left out, in milliseconds

	missingPolicy string // what a cluster without an answer yet is chosen by: requests in flight
	global        bool   // counts have to be shared by all gateways
}

// ClusterMode is what cluster_metrics compares.
type ClusterMode uint8

// The modes. The zero value is none of them.
const (
	LeastBusy              ClusterMode = iota + 1 // requests in flight
	LeastTotalLatency                             // time to the end of the answer
	LeastFirstTokenLatency                        // time to the first part of the answer
	AdaptiveScore                                 // both times, requests in flight and failures
)

var clusterModes = []string{"LeastBusy", "LeastTotalLatency", "LeastFirstTokenLatency", "AdaptiveScore"}

// String returns the mode's name in the configuration.
func (m ClusterMode) String() string {
	if m == 0 {
		return ""
	}
	return clusterModes[m-1]
}

// UnmarshalText sets the mode to the one with the name.
func (m *ClusterMode) UnmarshalText(name []byte) error {
	i := slices.Index(clusterModes, string(name))
	if i < 0 {
		return errors.New("lb: unknown mode " + string(name))
	}
	*m = ClusterMode(i + 1)
	return nil
}

// The keys by which a Redis is named, one on each kind of gateway.
const (
	keyServiceName = "serviceFQDN"
	keyRedisTunnel = "envoy.redis_cluster"
)

// check refuses what ai-load-balancer refuses, and weights that are all 0.
func (c *ClusterMetricsConfig) check(r setting.Report) {
	if !r.Written("mode") {
		r.Problem("mode", "missing, want LeastBusy, LeastTotalLatency, LeastFirstTokenLatency or AdaptiveScore")
	}
	if c.TTFTWeight == 0 && c.TotalWeight == 0 {
		r.Problem("ttft_weight", "got 0, and total_latency_weight is 0, too: want one of them above 0")
	}
	if c.global && !r.Written(keyServiceName) && !r.Written(keyRedisTunnel) {
		r.Problem("global_inflight_enabled", "got true, want a Redis with it: "+keyServiceName+" and servicePort, or "+
			keyRedisTunnel+" on stock Envoy")
	}
}

func (c *ClusterMetricsConfig) cooldown() time.Duration {
	return time.Duration(c.CooldownMs) * time.Millisecond
}
