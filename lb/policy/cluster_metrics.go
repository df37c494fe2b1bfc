package policy

import (
	"errors"
	"time"

	"github.com/warmgate/warmgate/lb"
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

// clusterMetrics is cluster_metrics: Higress's policy of that name, but with counts over all workers, latencies that
// are asked for again, and failures that cost in every mode.
type clusterMetrics struct {
	*leastRequest
	cfg       ClusterMetricsConfig
	shares    *RequestShares
	latencies *Latencies
	view      *lb.View // of the latest plan
}

func newClusterMetrics(c Config) (lb.Policy, error) {
	cfg := *c.Settings.(*ClusterMetricsConfig)
	if cfg.Mode == 0 {
		return nil, errors.New("lb: cluster_metrics without a mode")
	}
	c.Shares.follow()
	return &clusterMetrics{
		leastRequest: newLeastRequestIn(c, c.Unit), cfg: cfg, shares: c.Shares, latencies: c.Latencies,
		view: new(lb.View),
	}, nil
}

// Plan makes the clusters candidates that are within their share of the requests; for AdaptiveScore those of them that
// have not just failed, unless all have, and a sample of these. The others are chosen only when all of these are full.
func (p *clusterMetrics) Plan(now time.Duration, r *lb.Request, v *lb.View) (lb.Plan, lb.Reason) {
	if r.Idle {
		return p.leastRequest.Plan(now, r, v)
	}
	plan, reason := p.basePlan(now, r, v)
	if reason != lb.ReasonChosen {
		return plan, reason
	}
	p.view = v
	p.latencies.sweep(now, p.health)
	if p.cfg.Mode == AdaptiveScore {
		p.coolEjected(now, v)
	}
	within := p.shares.within(now, p.cfg.RateLimit, plan.Candidates)
	plan.List = p.weigh(now, r, within, plan.List)
	p.finish(now, r, &plan, v)
	return plan, lb.ReasonChosen
}

// coolEjected has clusters cool down that are ejected.
func (p *clusterMetrics) coolEjected(now time.Duration, v *lb.View) {
	for i := range v.Endpoints {
		if addr := v.Endpoints[i].Addr; p.health.IsEjected(now, addr) {
			p.latencies.of(addr).coolEjected(now, &p.cfg)
		}
	}
}

// Observe learns from the outcome of a request, and passes it to the health of the clusters. That one still fails which
// was tried in its cooldown is nothing new, and only keeps it cooling down: else it would be ejected for longer each
// time, and be used again late.
func (p *clusterMetrics) Observe(now time.Duration, o lb.Outcome) {
	l, weight := p.latencies.of(o.Addr), p.health.WeightOf(now, &o)
	fails := hasFailed(&o) && weight >= clearFailure
	if p.cfg.Mode == AdaptiveScore && fails && o.Whole > 0 && l.checks.include(now-o.Whole) {
		l.fails(now, &p.cfg)
		return
	}
	p.latencies.observe(now, &o, &p.cfg, weight, p.view)
	p.leastRequest.Observe(now, o)
}
