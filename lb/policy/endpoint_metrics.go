package policy

import (
	"strconv"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/lb/setting"
	"github.com/warmgate/warmgate/metrics"
)

func init() {
	register(&Descriptor{
		Name: "endpoint_metrics", Aliases: []string{"metrics_based"}, Rank: 3,
		Meaning: setting.Doc(
			"by the metrics of the engines",
			"依据引擎的指标",
		),
		Needs: byMetrics, Settings: newEngineConfig, Keys: targetKeys, Check: checkTarget,
		New: newEndpointMetrics,
	})
}

var byMetrics = Needs{Model: true, Metrics: MetricsRequired}

func newEngineConfig() any { return new(engines.Config) }

const (
	keyOrder  = "metric_policy"
	keyTarget = "target_metric"
	noWindow  = "has no effect: rate_limit is a share of the last ten seconds' requests"
)

// targetKeys are the keys of endpoint_metrics, with the names that ai-load-balancer has or proposes.
var targetKeys = []setting.Key{
	{
		Name: keyOrder, Type: setting.Choice, Choices: engines.OrderNames[:], Default: `"default"`, Loose: true,
		Title: setting.Doc("Metric policy", "指标策略"),
		Meaning: setting.Doc(
			"endpoint_metrics: `default`: by queue, KV cache, adapters and requests in flight; `least` or `most` "+
				"of `target_metric`",
			"endpoint_metrics：`default`：依据队列、KV cache、适配器和在途请求；`least` 或 `most`："+
				"`target_metric` 最小或最大者",
		),
		Field: func(s any) any { return &s.(*engines.Config).Order },
	},
	{
		Name: keyTarget, Type: setting.Text, Loose: true,
		Title: setting.Doc("Target metric", "目标指标"),
		Meaning: setting.Doc(
			"endpoint_metrics: the gauge that `least` and `most` compare, or the counter, by its growth "+
				"per second",
			"endpoint_metrics：`least` 和 `most` 所比较的 gauge；若是 counter，则比较其每秒增量",
		),
		Field: func(s any) any { return &s.(*engines.Config).Target },
	},
	{
		Name: "rate_limit", Type: setting.Number, Min: 0, Max: 1, Default: "1", Loose: true,
		Title: setting.Doc("Largest share", "最大份额"),
		Meaning: setting.Doc(
			"endpoint_metrics, cluster_metrics: the largest share of the last ten seconds' requests that one "+
				"endpoint, or one cluster, gets, over all workers of the gateway; the others take the rest. 0 or 1: "+
				"no limit",
			"endpoint_metrics、cluster_metrics：单个端点（或集群）在最近十秒的请求中所占的最大比例，按网关所有 worker "+
				"合计，其余由别的端点（或集群）承担；0 或 1：不限",
		),
		Field: func(s any) any { return &s.(*engines.Config).RateLimit },
	},
	{
		Name: "window_size", Type: setting.Integer, Min: 0, Max: 1e9, Loose: true, NoEffect: noWindow,
		Title: setting.Doc("Window in requests", "窗口（请求数）"),
		Meaning: setting.Doc(
			"Higress: how many requests `rate_limit` looks back on, proposed there",
			"Higress：`rate_limit` 回看多少个请求（Higress 的提案）",
		),
		Field: setting.Nowhere,
	},
	{
		Name: "window_seconds", Type: setting.Integer, Min: 0, Max: 1e9, Loose: true, NoEffect: noWindow,
		Title: setting.Doc("Window in seconds", "窗口（秒）"),
		Meaning: setting.Doc(
			"Higress: how many seconds `rate_limit` looks back on, proposed there",
			"Higress：`rate_limit` 回看多少秒（Higress 的提案）",
		),
		Field: setting.Nowhere,
	},
}

// checkTarget completes the settings: a share of 0 is no limit, as in ai-load-balancer, and an order by a metric that
// has no valid name is the default order.
func checkTarget(settings any, r setting.Report) {
	c := settings.(*engines.Config)
	if c.RateLimit == 0 {
		c.RateLimit = 1
	}
	if c.Order == engines.ByLoad {
		if r.Written(keyTarget) {
			r.Warning(keyTarget, "has no effect with metric_policy default")
		}
		return
	}
	if _, err := metrics.New(metrics.AnyEngine, c.Target); c.Target == "" || err != nil {
		r.Warning(keyOrder, "is "+strconv.Quote(c.Order.String())+" of "+setting.Quote(c.Target)+
			", which is no name of a metric as /metrics has it, without labels: taken as "+
			strconv.Quote(engines.ByLoad.String()))
		c.Order = engines.ByLoad
	}
}

// endpointMetrics is endpoint_metrics: the endpoint whose engine is likely to serve the request first, judged by its
// queue, KV cache and adapters, or the one with the lowest or highest value of one metric. Between two engine samples
// the store adds what has been reserved and released since, so that a stale sample does not attract a herd of requests.
type endpointMetrics struct {
	*leastRequest
	engines *engines.Samples
	shares  *RequestShares
	cfg     *engines.Config
}

func newEndpointMetrics(c Config) (lb.Policy, error) {
	p := &endpointMetrics{
		leastRequest: newLeastRequestIn(c, c.Unit), engines: c.Engines, shares: c.Shares,
		cfg: c.Engines.OneConfig(c.Settings.(*engines.Config)),
	}
	if p.cfg.Order != engines.ByLoad {
		p.affinity.weight = 0 // what a request costs there is no number of requests
	}
	return p, nil
}

// Plan makes every healthy endpoint a candidate at the cost derived from its engine sample, except those at their
// rate limit. An endpoint without a fresh sample gets the median cost; if no endpoint has one, the gateway decides.
func (p *endpointMetrics) Plan(now time.Duration, r *lb.Request, v *lb.View) (lb.Plan, lb.Reason) {
	if r.Idle {
		return p.leastRequest.Plan(now, r, v)
	}
	plan, reason := p.basePlan(now, r, v)
	if reason != lb.ReasonChosen {
		return plan, reason
	}
	list, fresh := p.engines.ApplyCosts(now, &plan, p.cfg, r.Model, p.cluster.HasWeights(v))
	if fresh == 0 {
		// the gateway would choose outside of a subset, or among those that are not healthy yet
		if r.Subset != nil || v.IsNew(now, p.cluster.Health.FirstWait) {
			return p.leastRequest.Plan(now, r, v)
		}
		return lb.Plan{}, lb.ReasonNoMetrics
	}
	plan.List = p.shares.inFront(now, p.cfg.RateLimit, list)
	p.finish(now, r, &plan, v)
	return plan, lb.ReasonChosen
}
