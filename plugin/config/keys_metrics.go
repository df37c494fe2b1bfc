package config

import "time"

// metricsKeyTable are the keys of what engines tell of themselves.
var metricsKeyTable = []key{
	{
		Key{keyOrder, "string", `"default"`, "endpoint_metrics: `default`: by queue, KV cache, adapters and what is in flight; `least` or `most` of `target_metric`"},
		looseOrder, onAny, "",
	},
	{
		Key{keyTarget, "string", "", "endpoint_metrics: the gauge that `least` and `most` compare, or the counter, by its growth per second"},
		looseText(func(c *Config) *string { return &c.Engines.Target }), onAny, "",
	},
	{
		Key{keyRateLimit, "number or string", "1", "endpoint_metrics: the largest share of the last ten seconds' requests that one endpoint gets, over all workers of the gateway; the others take the rest. 0 or 1: no limit"},
		looseRatio(func(c *Config) *float64 { return &c.Engines.ShareLimit }), onAny, "",
	},
	{
		Key{keyEngine, "string", "", "Higress's name for `metrics.engine`, proposed there: `vllm` or `sglang`"},
		looseText(func(c *Config) *string { return &c.engine }), onAny, "",
	},
	{
		Key{"lb_config.window_size", "integer", "", "Higress: how many picks `rate_limit` looks back on, proposed there"},
		looseInteger(0, 1e9, unused[int]), onAny, windowIdle,
	},
	{
		Key{"lb_config.window_seconds", "integer", "", "Higress: how many seconds `rate_limit` looks back on, proposed there"},
		looseInteger(0, 1e9, unused[int]), onAny, windowIdle,
	},
	{
		Key{keyMetricsEngine, "string", `"auto"`, "Whose metrics to expect: `auto`, `vllm`, `sglang`, `tensorrt-llm`, `triton`, `tgi`, `llama.cpp` or `dynamo`"},
		choice(func(c *Config) *string { return &c.Engines.Engine }, engineNames()...), onAny, "",
	},
	{
		Key{"lb_config.metrics.path", "string", `"/metrics"`, "Stock Envoy: where an endpoint shows its metrics"},
		text(func(c *Config) *string { return &c.Engines.Path }), onAny, "",
	},
	{
		Key{"lb_config.metrics.port", "integer", "0", "Stock Envoy: at which port; 0: the endpoint's own"},
		integer(0, 65535, func(c *Config) *int { return &c.Engines.Port }), onAny, "",
	},
	{
		Key{"lb_config.metrics.interval", millisType, `"1s"`, "How often metrics are read; in Higress its health check's interval counts, too"},
		duration(200*time.Millisecond, time.Minute, func(c *Config) *time.Duration { return &c.Engines.Interval }), onAny, "",
	},
	{
		Key{keyStaleAfter, millisType, `"3s"`, "Age from which an endpoint's metrics say nothing any more; once those of all do, the gateway decides"},
		duration(400*time.Millisecond, 10*time.Minute, func(c *Config) *time.Duration { return &c.Engines.StaleAfter }), onAny, "",
	},
	{
		Key{keyORCA, "boolean", "false", "Ask engines for load reports in their responses (ORCA) and read them; vLLM sends them with answers that are not streamed"},
		boolean(func(c *Config) *bool { return &c.Engines.ORCA }), onAny, "",
	},
	{
		Key{"lb_config.metrics.learn_weights", "boolean", "true", "Learn the capacity of endpoints from the time between tokens that their engines tell, unless it is configured"},
		boolean(func(c *Config) *bool { return &c.Engines.Learn }), onAny, "",
	},
	{
		Key{"lb_config.metrics.weights.running", "number", "1", "Cost of a request in flight on an endpoint of the usual weight"},
		number(0, 1000, func(c *Config) *float64 { return &c.Engines.RunningCost }), onAny, "",
	},
	{
		Key{"lb_config.metrics.weights.queue", "number", "4", "Cost, on top of that, of a request that has to wait"},
		number(0, 1000, func(c *Config) *float64 { return &c.Engines.QueueCost }), onAny, "",
	},
	{
		Key{"lb_config.metrics.weights.kv_cache", "number", "1", "Cost of a KV cache in full use, in requests"},
		number(0, 1000, func(c *Config) *float64 { return &c.Engines.KVCacheCost }), onAny, "",
	},
	{
		Key{"lb_config.metrics.weights.lora", "number", "16", "Cost of a LoRA adapter that must take another's place, in requests"},
		number(0, 1000, func(c *Config) *float64 { return &c.Engines.LoRACost }), onAny, "",
	},
	{
		Key{keyMetricsCluster, "string", "", "Stock Envoy: the ORIGINAL_DST cluster through which endpoints are asked for their metrics, `warmgate-metrics` in the shipped files"},
		text(func(c *Config) *string { return &c.Engines.Cluster }), onEnvoy, "",
	},
}
