package config

import (
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/setting"
)

const (
	keyMetricsCluster = "lb_config.envoy.metrics_cluster"
	keyMetricsEngine  = "lb_config.metrics.engine"
	keyMetricsPath    = "lb_config.metrics.path"
	keyMetricsPort    = "lb_config.metrics.port"
	keyORCA           = "lb_config.metrics.orca"
	keyStaleAfter     = section + lb.KeyStaleAfter
	keyEngine         = "lb_config.engine"
)

const windowNoEffect = "has no effect: rate_limit is a share of the last ten seconds' requests"

// windowKeys are keys that ai-load-balancer proposes beside rate_limit.
var windowKeys = []key{
	{Key: setting.Key{
		Name: "lb_config.window_size", Type: setting.Integer, Min: 0, Max: 1e9, Loose: true, NoEffect: windowNoEffect,
		Title: setting.Doc("Window in requests", "窗口（次数）"),
		Meaning: setting.Doc(
			"Higress: how many requests `rate_limit` looks back on, proposed there; no effect here",
			"Higress：`rate_limit` 回看多少次选择（上游提案）；此处无效",
		),
		Field: setting.Nowhere,
	}},
	{Key: setting.Key{
		Name: "lb_config.window_seconds", Type: setting.Integer,
		Min: 0, Max: 1e9, Loose: true, NoEffect: windowNoEffect,
		Title: setting.Doc("Window in seconds", "窗口（秒）"),
		Meaning: setting.Doc(
			"Higress: how many seconds `rate_limit` looks back on, proposed there; no effect here",
			"Higress：`rate_limit` 回看多少秒（上游提案）；此处无效",
		),
		Field: setting.Nowhere,
	}},
}

// engineKeys are the names that ai-load-balancer proposes for keys of scrapeKeys.
var engineKeys = []key{
	{Key: setting.Key{
		Name: keyEngine, Type: setting.Text, Loose: true,
		Title: setting.Doc("Engine, by the other name", "引擎（别名）"),
		Meaning: setting.Doc(
			"Higress's name for `metrics.engine`, proposed there: `vllm` or `sglang`",
			"`metrics.engine` 在 Higress 中的名称（上游提案）：`vllm` 或 `sglang`",
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
			"Whose metrics to expect: `auto`, `vllm`, `sglang`, `tensorrt-llm`, `triton`, `tgi`, "+
				"`llama.cpp` or `dynamo`",
			"指标来自哪种引擎：`auto`、`vllm`、`sglang`、`tensorrt-llm`、`triton`、`tgi`、`llama.cpp` 或 "+
				"`dynamo`",
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
			"向引擎索取响应中的负载报告（ORCA）并读取；vLLM 只在非流式回答中发送",
		),
		Field: func(s any) any { return &s.(*Config).Engines.ORCA },
	}},
	{
		Key: setting.Key{
			Name: keyMetricsCluster, Type: setting.Text,
			Meaning: setting.Doc(
				"Stock Envoy: the ORIGINAL_DST cluster through which endpoints are scraped, "+
					"`warmgate-metrics` in the shipped files",
				"标准 Envoy：向端点读取指标所用的 ORIGINAL_DST 集群，随附文件中为 `warmgate-metrics`",
			),
			Field: func(s any) any { return &s.(*Config).Engines.Cluster },
		},
		only: onEnvoy,
	},
}
