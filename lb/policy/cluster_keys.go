package policy

import "github.com/warmgate/warmgate/lb/setting"

const (
	noOwnKey  = "has no effect: counts have the scope's name, and an end of their own"
	maxMillis = 24 * 3600 * 1000
)

func noText(any) any { return new(string) }

// clusterMetricsKeys are the keys of cluster_metrics, with the names and the meanings that ai-load-balancer gives them.
var clusterMetricsKeys = []setting.Key{
	{
		Name: "mode", Type: setting.Choice, Choices: clusterModes,
		Title: setting.Doc("Mode", "模式"),
		Meaning: setting.Doc(
			"cluster_metrics, required: `LeastBusy`: fewest requests in flight; `LeastTotalLatency`: shortest time "+
				"to the end of the answer; `LeastFirstTokenLatency`: to its first part; `AdaptiveScore`: both times, "+
				"times requests in flight beyond what a cluster serves at once, times failures",
			"cluster_metrics，必填：`LeastBusy`：在途请求最少；`LeastTotalLatency`：到应答结束的时间最短；"+
				"`LeastFirstTokenLatency`：到应答首个部分的时间最短；`AdaptiveScore`：两种时间，乘以在途请求数与集群可同时处理数之比，再乘以失败率",
		),
		Field: func(s any) any { return &s.(*ClusterMetricsConfig).Mode },
	},
	{
		Name: "rate_limit", Type: setting.Number, Min: 0, Max: 1, Default: "1", Loose: true,
		Title:   setting.Doc("Largest share", "最大份额"),
		Meaning: setting.Doc("As for endpoint_metrics", "同 endpoint_metrics"),
		Field:   func(s any) any { return &s.(*ClusterMetricsConfig).RateLimit },
	},
	{
		Name: "queue_size", Type: setting.Integer, Min: -1e9, Max: 1e6, Default: "100", Loose: true,
		ZeroIsDefault: true, Title: setting.Doc("Answers in a mean", "均值的样本数"),
		Meaning: setting.Doc(
			"cluster_metrics: how many answers a mean latency is of; 0 and below: the default. AdaptiveScore "+
				"goes by `ewma_beta` in its place",
			"cluster_metrics：延迟均值所取的应答数；0 及以下：默认值。AdaptiveScore 改用 `ewma_beta`",
		),
		Field: func(s any) any { return &s.(*ClusterMetricsConfig).QueueSize },
	},
	{
		Name: "ewma_beta", Type: setting.Number, Min: 0, Max: 1, Default: "0.5", Loose: true, Exact: true,
		Title: setting.Doc("Weight of history", "历史权重"),
		Meaning: setting.Doc(
			"AdaptiveScore: the weight of earlier answers in a latency; the latest one has the rest, or the latest 16 "+
				"if so many come in a second",
			"AdaptiveScore：延迟中历史应答的权重，其余为最新应答的权重；一秒内应答较多时，以最近 16 个的均值为准",
		),
		Field: func(s any) any { return &s.(*ClusterMetricsConfig).HistoryPart },
	},
	{
		Name: "p2c_choices", Type: setting.Integer, Min: -1e9, Max: 1e6, Default: "2", Loose: true,
		ZeroIsDefault: true, Title: setting.Doc("Clusters compared", "比较的集群数"),
		Meaning: setting.Doc(
			"AdaptiveScore: how many clusters, drawn at random, are compared: the faster one serves, the more often "+
				"it is drawn; 0 and below: the default",
			"AdaptiveScore：随机抽取多少个集群进行比较，集群处理越快越常被抽中；0 及以下：默认值",
		),
		Field: func(s any) any { return &s.(*ClusterMetricsConfig).Choices },
	},
	{
		Name: "ttft_weight", Type: setting.Number, Min: 0, Max: 1e6, Default: "0.7", Loose: true, Exact: true,
		Title: setting.Doc("Weight of the first part", "首包延迟权重"),
		Meaning: setting.Doc(
			"AdaptiveScore: weight of the square root of the milliseconds to the first part of the answer",
			"AdaptiveScore：到应答首个部分的毫秒数之平方根的权重",
		),
		Field: func(s any) any { return &s.(*ClusterMetricsConfig).TTFTWeight },
	},
	{
		Name: "total_latency_weight", Type: setting.Number, Min: 0, Max: 1e6, Default: "0.3", Loose: true, Exact: true,
		Title: setting.Doc("Weight of the whole answer", "总延迟权重"),
		Meaning: setting.Doc(
			"AdaptiveScore: weight of the square root of the milliseconds to the end of the answer",
			"AdaptiveScore：到应答结束的毫秒数之平方根的权重",
		),
		Field: func(s any) any { return &s.(*ClusterMetricsConfig).TotalWeight },
	},
	{
		Name: "error_penalty", Type: setting.Number, Min: 0, Max: 1e6, Default: "3", Loose: true, Exact: true,
		Title: setting.Doc("Penalty of failures", "失败惩罚"),
		Meaning: setting.Doc(
			"AdaptiveScore: how many times as much, in addition, a cluster costs that fails every request",
			"AdaptiveScore：所有请求都失败的集群，其代价额外增加多少倍",
		),
		Field: func(s any) any { return &s.(*ClusterMetricsConfig).ErrorPenalty },
	},
	{
		Name: "failure_cooldown_ms", Type: setting.Integer, Min: 0, Max: maxMillis, Default: "30000",
		Loose: true, Exact: true, Millis: true, ZeroIsDefault: true,
		Title: setting.Doc("Cooldown", "冷却时长"),
		Meaning: setting.Doc(
			"AdaptiveScore: for how many milliseconds a cluster that has failed is left out, unless all have, or a "+
				"request that tries it has succeeded; 0: the default",
			"AdaptiveScore：失败的集群在多少毫秒内不参与选择，除非全部失败，或试探请求已经成功；0：默认值",
		),
		Field: func(s any) any { return &s.(*ClusterMetricsConfig).CooldownMs },
	},
	{
		Name: "metrics_missing_policy", Type: setting.Choice, Choices: []string{"least_busy"}, Default: `"least_busy"`,
		Loose: true,
		Title: setting.Doc("Without an answer yet", "尚无应答时"),
		Meaning: setting.Doc(
			"By what a cluster is chosen that has not answered yet: its requests in flight",
			"尚无应答的集群依据什么选择：在途请求数",
		),
		Field: func(s any) any { return &s.(*ClusterMetricsConfig).missingPolicy },
	},
	{
		Name: "global_inflight_enabled", Type: setting.Boolean, Default: "false", Loose: true,
		Title: setting.Doc("Counts of all gateways", "全局计数"),
		Meaning: setting.Doc(
			"Requires a Redis, in which requests are counted for all gateways. With a Redis they are in any case",
			"要求配置 Redis，为所有网关合计请求数。只要配置了 Redis 就总是如此",
		),
		Field: func(s any) any { return &s.(*ClusterMetricsConfig).global },
	},
	{
		Name: "global_inflight_key_prefix", Type: setting.Text, Loose: true, NoEffect: noOwnKey,
		Title: setting.Doc("Key prefix (no effect)", "键前缀（无效）"),
		Meaning: setting.Doc(
			"Higress: how the key in Redis begins",
			"Higress：Redis 中键的前缀",
		),
		Field: noText,
	},
	{
		Name: "global_inflight_timeout", Type: setting.Integer, Min: 0, Max: maxMillis, Loose: true, Exact: true,
		NoEffect: "has no effect: `reserve_timeout` is how long a request waits for Redis",
		Title:    setting.Doc("Redis timeout (no effect)", "Redis 超时（无效）"),
		Meaning: setting.Doc(
			"Higress: how many milliseconds to wait for Redis",
			"Higress：等待 Redis 的毫秒数",
		),
		Field: setting.Nowhere,
	},
	{
		Name: "global_inflight_key_ttl", Type: setting.Integer, Min: 0, Max: 1e9, Loose: true, Exact: true,
		NoEffect: noOwnKey,
		Title:    setting.Doc("Key TTL (no effect)", "键的 TTL（无效）"),
		Meaning: setting.Doc(
			"Higress: for how many seconds the counts in Redis are kept",
			"Higress：Redis 中计数的保留秒数",
		),
		Field: setting.Nowhere,
	},
}
