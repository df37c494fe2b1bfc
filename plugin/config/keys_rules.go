package config

import "github.com/warmgate/warmgate/lb/setting"

// ruleKeys are the keys of rules. They are not part of a Config: see [source.conditions].
var ruleKeys = []key{
	{Key: setting.Key{
		Name: rulesKey, Type: setting.Array,
		Meaning: setting.Doc(
			"Configurations for some requests only, each with the keys above and at least one of the "+
				"following; the first that matches applies, else the keys beside `_rules_`",
			"只用于部分请求的配置，每项可用上面的键，并至少带下列条件之一；第一个匹配的生效，都不匹配时用"+
				"与 `_rules_` 并列的键",
		),
	}},
	{Key: setting.Key{
		Name: "_rules_[]._match_route_", Type: setting.Array,
		Meaning: setting.Doc(
			"Names of routes",
			"路由名称",
		),
	}},
	{Key: setting.Key{
		Name: "_rules_[]._match_route_prefix_", Type: setting.Array,
		Meaning: setting.Doc(
			"Beginnings of route names",
			"路由名称的前缀",
		),
	}},
	{Key: setting.Key{
		Name: "_rules_[]._match_domain_", Type: setting.Array,
		Meaning: setting.Doc(
			"Host names, `*.example.com` and `api.*` included",
			"域名，可用 `*.example.com` 和 `api.*` 的写法",
		),
	}},
	{Key: setting.Key{
		Name: "_rules_[]._match_service_", Type: setting.Array,
		Meaning: setting.Doc(
			"Services, `name` or `name:port`; on stock Envoy also the name of a cluster",
			"服务，`name` 或 `name:port`；在标准 Envoy 上也可以是集群名称",
		),
	}},
}
