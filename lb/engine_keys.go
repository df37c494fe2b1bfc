package lb

import "github.com/warmgate/warmgate/lb/setting"

// KeyStaleAfter is the name, below lb_config, of the key with the age above which a sample is not used.
const KeyStaleAfter = "metrics.stale_after"

// MetricsKeys returns the keys of all policies that use metrics of engines, with names below lb_config. They are
// decoded into an [EngineConfig], and must not be changed.
func MetricsKeys() []setting.Key { return metricsKeys }

var metricsKeys = []setting.Key{
	{
		Name: KeyStaleAfter, Type: setting.Duration, Default: `"3s"`,
		Min: 400, Max: 10 * setting.Minute,
		Title: setting.Words{EN: "Stale after", ZH: "过期时间"},
		Meaning: setting.Words{
			EN: "Age from which an endpoint's metrics are not used; once those of all are too old, the " +
				"gateway decides",
			ZH: "端点的指标超过多久便不再作数；所有端点的都不作数时，由网关自行决定",
		},
		Field: func(s any) any { return &s.(*EngineConfig).StaleAfter },
	},
	{
		Name: "metrics.learn_weights", Type: setting.Boolean, Default: "true",
		Title: setting.Words{EN: "Learn capacities", ZH: "学习容量"},
		Meaning: setting.Words{
			EN: "Learn the capacity of endpoints from the time between tokens that their engines report, unless " +
				"it is configured",
			ZH: "未配置容量时，由引擎给出的 token 间隔时间学习端点的容量",
		},
		Field: func(s any) any { return &s.(*EngineConfig).Learn },
	},
	{
		Name: "metrics.weights.running", Type: setting.Number, Min: 0, Max: maxCost, Default: "1",
		Title: setting.Words{EN: "Request in flight", ZH: "在途请求"},
		Meaning: setting.Words{
			EN: "Cost of a request in flight on an endpoint of mean weight",
			ZH: "通常权重的端点上一个在途请求的代价",
		},
		Field: func(s any) any { return &s.(*EngineConfig).Weights.Running },
	},
	{
		Name: "metrics.weights.queue", Type: setting.Number, Min: 0, Max: maxCost, Default: "4",
		Title: setting.Words{EN: "Request that waits", ZH: "排队请求"},
		Meaning: setting.Words{
			EN: "Cost, on top of that, of a request that has to wait",
			ZH: "请求需要排队时在此之上的代价",
		},
		Field: func(s any) any { return &s.(*EngineConfig).Weights.Queue },
	},
	{
		Name: "metrics.weights.kv_cache", Type: setting.Number, Min: 0, Max: maxCost, Default: "1",
		Title: setting.Words{EN: "Full KV cache", ZH: "KV cache 用满"},
		Meaning: setting.Words{
			EN: "Cost of a KV cache in full use, in requests",
			ZH: "KV cache 用满时的代价，以请求数计",
		},
		Field: func(s any) any { return &s.(*EngineConfig).Weights.KVCache },
	},
	{
		Name: "metrics.weights.lora", Type: setting.Number, Min: 0, Max: maxCost, Default: "16",
		Title: setting.Words{EN: "LoRA adapter", ZH: "LoRA 适配器"},
		Meaning: setting.Words{
			EN: "Cost of a LoRA adapter that must take another's place, in requests",
			ZH: "LoRA 适配器须挤掉另一个时的代价，以请求数计",
		},
		Field: func(s any) any { return &s.(*EngineConfig).Weights.LoRA },
	},
}

// maxCost is the upper limit of a configured cost, in requests.
const maxCost = 1000
