package lb

import (
	"errors"
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb/setting"
)

func init() {
	register(&Descriptor{
		Name: "cluster_metrics", Rank: 4,
		Meaning: setting.Doc(
			"with `lb_type: cluster`, by requests in flight, latency and failures of each cluster",
			"与 `lb_type: cluster` 配合，依据各集群的在途请求、延迟和失败",
		),
		Among:    Clusters,
		Settings: func() any { return new(ClusterMetricsConfig) },
		Keys:     clusterMetricsKeys,
		Check:    func(settings any, r setting.Report) { settings.(*ClusterMetricsConfig).check(r) },
		New:      newClusterMetrics,
	})
}

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

// check refuses what it refuses.
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

// clusterMetrics is cluster_metrics: Higress's policy of that name, but with counts over all workers, latencies that
// are asked for again, and failures that cost in every mode.
type clusterMetrics struct {
	*leastRequest
	cfg       ClusterMetricsConfig
	shares    *RequestShares
	latencies *Latencies
	view      *View // of the latest plan
}

func newClusterMetrics(c Config) (Policy, error) {
	cfg := *c.Settings.(*ClusterMetricsConfig)
	if cfg.Mode == 0 {
		return nil, errors.New("lb: cluster_metrics without a mode")
	}
	c.Shares.follow()
	return &clusterMetrics{
		leastRequest: newLeastRequestIn(c, c.Unit), cfg: cfg, shares: c.Shares, latencies: c.Latencies,
		view: new(View),
	}, nil
}

// Plan makes the clusters candidates that are within their share of the requests; for AdaptiveScore those of them that
// have not just failed, unless all have, and a sample of these. The others are chosen only when all of these are full.
func (p *clusterMetrics) Plan(now time.Duration, r *Request, v *View) (Plan, Reason) {
	if r.Idle {
		return p.leastRequest.Plan(now, r, v)
	}
	plan, reason := p.basePlan(now, r, v)
	if reason != ReasonChosen {
		return plan, reason
	}
	p.view = v
	p.latencies.sweep(now, p.health)
	within := p.shares.within(now, p.cfg.RateLimit, plan.Candidates)
	plan.List = p.weigh(now, r, within, plan.List)
	p.finish(now, &plan, v)
	return plan, ReasonChosen
}

// Observe learns from the outcome of a request, and passes it to the health of the clusters.
func (p *clusterMetrics) Observe(now time.Duration, o Outcome) {
	p.latencies.observe(now, &o, &p.cfg, p.health.weightOf(now, &o), p.view)
	p.leastRequest.Observe(now, o)
}
