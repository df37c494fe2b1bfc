package config

import "github.com/warmgate/warmgate/lb/setting"

// storeKeys are the keys of where work in flight is counted, and of Redis.
var storeKeys = []key{
	{Key: setting.Key{
		Name: keyStore, Type: setting.Choice, Choices: storeNames[1:],
		Title: setting.Doc("Store", "存储"),
		Meaning: setting.Doc(
			"Where work in flight is counted; `local`: in the gateway's memory, over its workers; "+
				"`redis`: over all gateways. Default: `redis` if a Redis is named, else `local`",
			"在途工作量在哪里计数；`local`：在网关内存中，跨其所有 worker；`redis`：跨所有网关。默认：指定"+
				"了 Redis 时为 `redis`，否则为 `local`",
		),
		Field: func(s any) any { return &s.(*Config).Store },
	}},
	{Key: setting.Key{
		Name: "lb_config.reserve_timeout", Type: setting.Duration,
		Min: 1, Max: 10 * setting.Second, Default: `"20ms"`,
		Title: setting.Doc("Reserve timeout", "等待 Redis 的时限"),
		Meaning: setting.Doc(
			"How long a request waits for Redis; then the counts in the gateway's memory decide",
			"请求等待 Redis 的最长时间，超时后由网关内存中的计数决定",
		),
		Field: func(s any) any { return &s.(*Config).ReserveTimeout },
	}},
	{Key: setting.Key{
		Name: "lb_config.redis_scope", Type: setting.Text,
		Title: setting.Doc("Redis scope", "Redis 计数范围"),
		Meaning: setting.Doc(
			"What is counted together in Redis, by all gateways that give the same name. Default: the "+
				"cluster's name",
			"在 Redis 中合并计数的范围：由名称相同的所有网关共享。默认：集群名",
		),
		Field: func(s any) any { return &s.(*Config).Redis.Scope },
	}},
	{
		Key: setting.Key{
			Name: keyTunnel, Type: setting.Text,
			Meaning: setting.Doc(
				"Stock Envoy: cluster that leads to Redis, `warmgate-redis` in the shipped files",
				"标准 Envoy：通往 Redis 的集群，随附文件中为 `warmgate-redis`",
			),
			Field: func(s any) any { return &s.(*Config).Redis.Cluster },
		},
		only: onEnvoy,
	},
	{
		Key: setting.Key{
			Name: keyService, Type: setting.Text, Loose: true,
			Title: setting.Doc("Redis service", "Redis 服务"),
			Meaning: setting.Doc(
				"Higress: the Redis service with its suffix, such as `redis.static` or `redis.dns`",
				"Higress：Redis 服务名，含后缀，如 `redis.static` 或 `redis.dns`",
			),
			Field: func(s any) any { return &s.(*Config).Redis.ServiceFQDN },
		},
		set: serviceName,
	},
	{Key: setting.Key{
		Name: keyPort, Type: setting.Integer, Min: 0, Max: 65535, Loose: true, Exact: true,
		Title: setting.Doc("Redis port", "Redis 端口"),
		Meaning: setting.Doc(
			"Higress: the port of that service; not set or 0: 80 for `.static`, else 6379",
			"Higress：该服务的端口；未设置或为 0 时，`.static` 为 80，其余为 6379",
		),
		Field: func(s any) any { return &s.(*Config).Redis.ServicePort },
	}},
	{Key: setting.Key{
		Name: "lb_config.username", Type: setting.Text, Loose: true,
		Title: setting.Doc("Redis user", "Redis 用户名"),
		Meaning: setting.Doc(
			"Redis user; in Higress all plugins that use one Redis service need the same user, password and "+
				"database",
			"Redis 用户名；在 Higress 中，使用同一 Redis 服务的所有插件须填写相同的用户名、密码和数据库",
		),
		Field: func(s any) any { return &s.(*Config).Redis.Username },
	}},
	{Key: setting.Key{
		Name: keyPassword, Type: setting.Text, Loose: true,
		Title: setting.Doc("Redis password", "Redis 密码"),
		Meaning: setting.Doc(
			"Redis password; never written to a log",
			"Redis 密码；不会写入任何日志",
		),
		Field: func(s any) any { return &s.(*Config).Redis.Password },
	}},
	{Key: setting.Key{
		Name: keyTimeout, Type: setting.Duration,
		Min: 0, Max: 10 * setting.Minute, Default: "3000", Loose: true,
		Title: setting.Doc("Redis timeout", "Redis 超时"),
		Meaning: setting.Doc(
			"Higress: time limit of the connection to Redis; 0: the default",
			"Higress：Redis 连接的超时时间；0：默认值",
		),
		Field: func(s any) any { return &s.(*Config).Redis.Timeout },
	}},
	{Key: setting.Key{
		Name: "lb_config.database", Type: setting.Integer, Min: 0, Max: 65535, Default: "0", Loose: true, Exact: true,
		Title: setting.Doc("Redis database", "Redis 数据库"),
		Meaning: setting.Doc(
			"Redis database; 0 with a Redis Cluster",
			"Redis 数据库编号；使用 Redis Cluster 时只能为 0",
		),
		Field: func(s any) any { return &s.(*Config).Redis.Database },
	}},
	{Key: setting.Key{
		Name: "lb_config.cleanInterval", Type: setting.Integer,
		Min: 0, Max: 1e9, Loose: true, NoEffect: "has no effect: counts are leases here and need no clean-up",
		Title: setting.Doc("Clean-up interval", "清理间隔"),
		Meaning: setting.Doc(
			"Higress: minutes between clean-ups of its Redis table; here counts are leases",
			"Higress：清理其 Redis 表的间隔（分钟）；此处的计数是租约",
		),
		Field: setting.Nowhere,
	}},
}
