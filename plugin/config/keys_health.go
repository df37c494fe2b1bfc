package config

import "github.com/warmgate/warmgate/lb/setting"

// healthKeys are the keys of passive health.
var healthKeys = []key{
	{Key: setting.Key{
		Name: "lb_config.health.consecutive_failures", Type: setting.Integer, Min: 0, Max: 1000, Default: "5",
		Title: setting.Words{EN: "Failures until ejection", ZH: "连续失败次数"},
		Meaning: setting.Words{
			EN: "Failures that eject an endpoint when such requests fail nowhere else; 0: never",
			ZH: "同样的请求在其他端点不失败时，失败多少次后摘除端点；0：从不摘除",
		},
		Field: func(s any) any { return &s.(*Config).Health.ConsecutiveFailures },
	}},
	{Key: setting.Key{
		Name: "lb_config.health.ejection_time", Type: setting.Duration,
		Min: 100, Max: setting.Hour, Default: `"10s"`,
		Title: setting.Words{EN: "Ejection time", ZH: "摘除时长"},
		Meaning: setting.Words{
			EN: "Length of the first ejection; each further one is longer",
			ZH: "首次摘除的时长，之后每次更长",
		},
		Field: func(s any) any { return &s.(*Config).Health.EjectionTime },
	}},
	{Key: setting.Key{
		Name: "lb_config.health.max_ejection_time", Type: setting.Duration,
		Min: 100, Max: 24 * setting.Hour, Default: `"300s"`,
		Title: setting.Words{EN: "Longest ejection", ZH: "最长摘除时长"},
		Meaning: setting.Words{
			EN: "Longest ejection",
			ZH: "摘除时长的上限",
		},
		Field: func(s any) any { return &s.(*Config).Health.MaxEjectionTime },
	}},
	{Key: setting.Key{
		Name: "lb_config.health.max_ejection_percent", Type: setting.Integer, Min: 0, Max: 100, Default: "50",
		Title: setting.Words{EN: "Ejected share", ZH: "摘除比例上限"},
		Meaning: setting.Words{
			EN: "Share of a cluster's endpoints that may be ejected at once, in percent",
			ZH: "集群中可同时被摘除的端点比例（百分数）",
		},
		Field: func(s any) any { return &s.(*Config).Health.MaxEjectionPercent },
	}},
	{Key: setting.Key{
		Name: "lb_config.health.slow_start", Type: setting.Duration,
		Min: 0, Max: setting.Hour, Default: `"30s"`,
		Title: setting.Words{EN: "Slow start", ZH: "慢启动"},
		Meaning: setting.Words{
			EN: "Time over which the share of a new or returning endpoint grows evenly to a full one, from 5 " +
				"% on; 0: at once",
			ZH: "新端点或恢复的端点的份额从 5 % 起均匀增长到应有份额所用的时间；0：立即达到",
		},
		Field: func(s any) any { return &s.(*Config).Health.SlowStart },
	}},
	{Key: setting.Key{
		Name: "lb_config.health.panic_threshold", Type: setting.Integer, Min: 0, Max: 100, Default: "50",
		Title: setting.Words{EN: "Panic threshold", ZH: "恐慌阈值"},
		Meaning: setting.Words{
			EN: "Percent of a priority's endpoints that must be healthy or degraded, else the gateway decides " +
				"while all priorities together are too few; 0: never",
			ZH: "某一优先级中健康或降级端点的最低百分比；低于此值且各优先级合计能力不足时，由网关自行决定；0：" +
				"从不如此",
		},
		Field: func(s any) any { return &s.(*Config).Health.PanicThreshold },
	}},
}
