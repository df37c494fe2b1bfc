package config

import "github.com/warmgate/warmgate/lb/setting"

// healthKeys are the keys of passive health.
var healthKeys = []key{
	{Key: setting.Key{
		Name: "lb_config.health.consecutive_failures", Type: setting.Integer, Min: 0, Max: 1000, Default: "5",
		Title: setting.Doc("Failures until ejection", "连续失败次数"),
		Meaning: setting.Doc(
			"How many failures in a row eject an endpoint that fails what others serve. Each counts for less the "+
				"more such requests fail at other endpoints, too, and a success takes back as much; 0: never",
			"同样的请求在其他端点成功时，端点连续失败多少次后被摘除。此类请求在其他端点也失败得越多，每次失败计得越少；"+
				"一次成功则抵消同样多；0：从不摘除",
		),
		Field: func(s any) any { return &s.(*Config).Health.ConsecutiveFailures },
	}},
	{Key: setting.Key{
		Name: "lb_config.health.ejection_time", Type: setting.Duration,
		Min: 100, Max: setting.Hour, Default: `"10s"`,
		Title: setting.Doc("Ejection time", "摘除时长"),
		Meaning: setting.Doc(
			"Length of the first ejection; each further one in a row is twice as long",
			"首次摘除的时长，之后每次连续摘除加倍",
		),
		Field: func(s any) any { return &s.(*Config).Health.EjectionTime },
	}},
	{Key: setting.Key{
		Name: "lb_config.health.max_ejection_time", Type: setting.Duration,
		Min: 100, Max: 24 * setting.Hour, Default: `"300s"`,
		Title: setting.Doc("Longest ejection", "最长摘除时长"),
		Meaning: setting.Doc(
			"Longest ejection",
			"摘除时长的上限",
		),
		Field: func(s any) any { return &s.(*Config).Health.MaxEjectionTime },
	}},
	{Key: setting.Key{
		Name: "lb_config.health.max_ejection_percent", Type: setting.Integer, Min: 0, Max: 100, Default: "50",
		Title: setting.Doc("Ejected share", "摘除比例上限"),
		Meaning: setting.Doc(
			"Percent of a cluster's endpoints that may be ejected at once, with those that the gateway excludes; at "+
				"least one endpoint; 0: none",
			"集群中可同时被摘除的端点的百分比，包括网关已排除的端点；至少一个端点；0：一个也不摘除",
		),
		Field: func(s any) any { return &s.(*Config).Health.MaxEjectionPercent },
	}},
	{Key: setting.Key{
		Name: "lb_config.health.slow_start", Type: setting.Duration,
		Min: 0, Max: setting.Hour, Default: `"30s"`,
		Title: setting.Doc("Slow start", "慢启动"),
		Meaning: setting.Doc(
			"Time over which the share of a new or returning endpoint grows evenly to a full one, from 5 "+
				"% on; 0: at once",
			"新端点或恢复的端点的份额从 5 % 起均匀增长到应有份额所用的时间；0：立即达到",
		),
		Field: func(s any) any { return &s.(*Config).Health.SlowStart },
	}},
	{Key: setting.Key{
		Name: "lb_config.health.panic_threshold", Type: setting.Integer, Min: 0, Max: 100, Default: "50",
		Title: setting.Doc("Panic threshold", "恐慌阈值"),
		Meaning: setting.Doc(
			"Percent of a priority's endpoints that must be healthy or degraded, else the gateway decides "+
				"while all priorities together are too few; 0: never",
			"某一优先级中健康或降级端点的最低百分比；低于此值且各优先级合计能力不足时，由网关自行决定；0："+
				"从不如此",
		),
		Field: func(s any) any { return &s.(*Config).Health.PanicThreshold },
	}},
}
