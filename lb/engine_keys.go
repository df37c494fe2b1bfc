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
		Title: setting.Doc("Stale after", "过期时间"),
		Meaning: setting.Doc(
			"Age from which an endpoint's metrics are not used; once those of all are too old, the "+
				"gateway decides",
			"端点的指标超过多久便不再作数；所有端点的都不作数时，由网关自行决定",
		),
		Field: func(s any) any { return &s.(*EngineConfig).StaleAfter },
	},
	{
		Name: "metrics.learn_weights", Type: setting.Boolean, Default: "true",
		Title: setting.Doc("Learn capacities", "学习容量"),
		Meaning: setting.Doc(
			"Learn the capacity of endpoints from the time between tokens that their engines report, unless "+
				"it is configured",
			"未配置容量时，由引擎给出的 token 间隔时间学习端点的容量",
		),
		Field: func(s any) any { return &s.(*EngineConfig).Learn },
	},
	{
		Name: "metrics.weights.running", Type: setting.Number, Min: 0, Max: maxCost, Default: "1",
		Title: setting.Doc("Request in flight", "在途请求"),
		Meaning: setting.Doc(
			"Cost of a request in flight on an endpoint of mean weight",
			"通常权重的端点上一个在途请求的代价",
		),
		Field: func(s any) any { return &s.(*EngineConfig).Weights.Running },
	},
	{
		Name: "metrics.weights.queue", Type: setting.Number, Min: 0, Max: maxCost, Default: "4",
		Title: setting.Doc("Request that waits", "排队请求"),
		Meaning: setting.Doc(
			"Cost, on top of that, of a request that has to wait",
			"请求需要排队时在此之上的代价",
		),
		Field: func(s any) any { return &s.(*EngineConfig).Weights.Queue },
	},
	{
		Name: "metrics.weights.kv_cache", Type: setting.Number, Min: 0, Max: maxCost, Default: "1",
		Title: setting.Doc("Full KV cache", "KV cache 用满"),
		Meaning: setting.Doc(
			"Cost of a KV cache in full use, in requests",
			"KV cache 用满时的代价，以请求数计",
		),
		Field: func(s any) any { return &s.(*EngineConfig).Weights.KVCache },
	},
	{
		Name: "metrics.weights.lora", Type: setting.Number, Min: 0, Max: maxCost, Default: "16",
		Title: setting.Doc("LoRA adapter", "LoRA 适配器"),
		Meaning: setting.Doc(
			"Cost of a LoRA adapter that must take another's place, in requests",
			"LoRA 适配器须挤掉另一个时的代价，以请求数计",
		),
		Field: func(s any) any { return &s.(*EngineConfig).Weights.LoRA },
	},
}

// maxCost is the upper limit of a configured cost, in requests.
const maxCost = 1000
