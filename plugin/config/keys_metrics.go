package config

import "github.com/warmgate/warmgate/lb/setting"

// engineKeys are the names that ai-load-balancer proposes for keys of scrapeKeys.
var engineKeys = []key{
	{Key: setting.Key{
		Name: keyEngine, Type: setting.Text, Loose: true,
		Title: setting.Doc("Engine, by the other name", "引擎（别名）"),
		Meaning: setting.Doc(
			"Higress's name for `metrics.engine`, proposed there: `vllm` or `sglang`",
			"`metrics.engine` 在 Higress 中的名称（Higress 的提案）：`vllm` 或 `sglang`",
		),
		Field: func(s any) any { return &s.(*Config).engine },
	}},
}

// scrapeKeys are the keys of how metrics of engines are scraped.
var scrapeKeys = []key{
	{Key: setting.Key{
		Name: keyMetricsEngine, Type: setting.Choice, Default: `"auto"`, Choices: engineNames(),
		Title: setting.Doc("Engine", "引擎"),
		Meaning: setting.Doc(
			"Whose metrics to expect: {engines}",
			"指标来自哪种引擎：{engines}",
		),
		Field: func(s any) any { return &s.(*Config).Engines.Engine },
	}},
	{Key: setting.Key{
		Name: keyMetricsPath, Type: setting.Text, Default: `"/metrics"`,
		Meaning: setting.Doc(
			"Stock Envoy: path of the metrics of an endpoint",
			"标准 Envoy：端点提供指标的路径",
		),
		Field: func(s any) any { return &s.(*Config).Engines.Path },
	}},
	{Key: setting.Key{
		Name: keyMetricsPort, Type: setting.Integer, Min: 0, Max: 65535, Default: "0",
		Meaning: setting.Doc(
			"Stock Envoy: port of the metrics of an endpoint; 0: the endpoint's own",
			"标准 Envoy：提供指标的端口；0：端点自身的端口",
		),
		Field: func(s any) any { return &s.(*Config).Engines.Port },
	}},
	{Key: setting.Key{
		Name: "lb_config.metrics.interval", Type: setting.Duration,
		Min: 200, Max: setting.Minute, Default: `"1s"`,
		Title: setting.Doc("Interval", "间隔"),
		Meaning: setting.Doc(
			"How often metrics are read; in Higress its health check's interval counts, too",
			"读取指标的间隔；在 Higress 中还取决于健康检查的间隔",
		),
		Field: func(s any) any { return &s.(*Config).Engines.Interval },
	}},
	{Key: setting.Key{
		Name: keyORCA, Type: setting.Boolean, Default: "false",
		Title: setting.Doc("Load reports", "负载报告"),
		Meaning: setting.Doc(
			"Request load reports (ORCA) in responses, and read them; vLLM sends them with answers that "+
				"are not streamed",
			"向引擎索取响应中的负载报告（ORCA）并读取；vLLM 只在非流式应答中发送",
		),
		Field: func(s any) any { return &s.(*Config).Engines.ORCA },
	}},
	{
		Key: setting.Key{
			Name: keyMetricsCluster, Type: setting.Text,
			Meaning: setting.Doc(
				"Stock Envoy: the ORIGINAL_DST cluster through which endpoints are scraped, "+
					"`warmgate-metrics` in the shipped files",
				"标准 Envoy：向端点抓取指标所用的 ORIGINAL_DST 集群，随附文件中为 `warmgate-metrics`",
			),
			Field: func(s any) any { return &s.(*Config).Engines.Cluster },
		},
		only: onEnvoy,
	},
}

// weighKeys are the keys of how metrics of engines are weighed. They are part of the [engines.Config].
var weighKeys = []key{
	{Key: setting.Key{
		Name: keyStaleAfter, Type: setting.Duration, Default: `"3s"`,
		Min: 400, Max: 10 * setting.Minute,
		Title: setting.Doc("Stale after", "过期时间"),
		Meaning: setting.Doc(
			"Age above which an endpoint's metrics are not used, more than `interval`; while those of all are "+
				"older, endpoint_metrics falls back to native balancing, and prefix_cache chooses without them",
			"端点的指标超过此时长便不再使用，须大于 `interval`；所有端点的指标都超过时，endpoint_metrics 交由网关的"+
				"原生负载均衡，prefix_cache 则不依据指标选择",
		),
		Field: func(s any) any { return &s.(*Config).Engines.StaleAfter },
	}},
	{Key: setting.Key{
		Name: "lb_config.metrics.learn_weights", Type: setting.Boolean, Default: "true",
		Title: setting.Doc("Learn weights", "学习权重"),
		Meaning: setting.Doc(
			"Learn the weight of endpoints from the time between tokens that their engines report, unless "+
				"`weights` are set, or different weights in the gateway",
			"由引擎给出的 token 间隔时间学习端点的权重，除非设置了 `weights`，或网关中的权重各不相同",
		),
		Field: func(s any) any { return &s.(*Config).Engines.Learn },
	}},
	{Key: setting.Key{
		Name: "lb_config.metrics.weights.running", Type: setting.Number, Min: 0, Max: maxCost, Default: "1",
		Title: setting.Doc("Request in flight", "在途请求"),
		Meaning: setting.Doc(
			"Cost of a request in flight on an endpoint of mean weight",
			"平均权重的端点上一个在途请求的代价",
		),
		Field: func(s any) any { return &s.(*Config).Engines.Weights.Running },
	}},
	{Key: setting.Key{
		Name: "lb_config.metrics.weights.queue", Type: setting.Number, Min: 0, Max: maxCost, Default: "4",
		Title: setting.Doc("Request that waits", "排队请求"),
		Meaning: setting.Doc(
			"Cost of a request that has to wait, in addition to `running`, in the same unit; with prefix_cache it "+
				"multiplies what waiting for a place in the batch costs, with `push: blind` only",
			"请求需要排队时在 `running` 之外的代价，单位相同；对 prefix_cache 则是等待批次空位的代价的倍数，"+
				"仅在 `push: blind` 时使用",
		),
		Field: func(s any) any { return &s.(*Config).Engines.Weights.Queue },
	}},
	{Key: setting.Key{
		Name: "lb_config.metrics.weights.kv_cache", Type: setting.Number, Min: 0, Max: maxCost, Default: "1",
		Title: setting.Doc("Full KV cache", "KV cache 用满"),
		Meaning: setting.Doc(
			"Cost of a KV cache in full use, in requests",
			"KV cache 用满时的代价，以请求数计",
		),
		Field: func(s any) any { return &s.(*Config).Engines.Weights.KVCache },
	}},
	{Key: setting.Key{
		Name: keyLoRA, Type: setting.Number, Min: 0, Max: maxCost, Default: "16",
		Title: setting.Doc("LoRA adapter", "LoRA 适配器"),
		Meaning: setting.Doc(
			"Cost of a LoRA adapter that must take another's place, in requests; 0: adapters do not matter",
			"LoRA 适配器须挤掉另一个时的代价，以请求数计；0：不考虑适配器",
		),
		Field: func(s any) any { return &s.(*Config).Engines.Weights.LoRA },
	}},
}

// maxCost is the upper limit of a configured cost, in requests.
const maxCost = 1000
