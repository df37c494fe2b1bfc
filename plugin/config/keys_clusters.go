package config

import "github.com/warmgate/warmgate/lb/setting"

// clusterKeys are the keys for choosing among clusters.
var clusterKeys = []key{
	{
		Key: setting.Key{
			Name: keyClusters, Type: setting.Array, Entry: "string",
			Title: setting.Doc("Clusters", "集群列表"),
			Meaning: setting.Doc(
				"`lb_type: cluster`, required there: the names of the clusters to choose among, as Envoy has them, 64 "+
					"at most; a string counts as one name. With `lb_policy: token_budget` the default is all of its "+
					"`targets`",
				"`lb_type: cluster` 时必填：可选集群的名称（与 Envoy 中的一致），最多 64 个；单个字符串视为一个名称。"+
					"`lb_policy: token_budget` 时默认为其 `targets` 中的全部集群",
			),
		},
		set: setClusters,
	},
	{
		Key: setting.Key{
			Name: keyHashClusters, Type: setting.Array, Entry: "object",
			Title: setting.Doc("Clusters with weights", "集群及其权重"),
			Meaning: setting.Doc(
				"`lb_policy: cluster_hash`, in place of `service_list`: `{\"cluster\": \"name\", \"weight\": 70}` for "+
					"each cluster; the weights sum to 100. Requests with one value of `hash_header`, by default "+
					"`"+hashedHeader+"`, go to one cluster; those without the header are answered 403",
				"`lb_policy: cluster_hash` 用它代替 `service_list`：每个集群一项 `{\"cluster\": \"name\", \"weight\": 70}`，"+
					"权重之和为 100。`hash_header`（默认 `"+hashedHeader+"`）取值相同的请求发往同一集群；没有该请求头的请求返回 403",
			),
		},
		set: setHashClusters,
	},
	{
		Key: setting.Key{
			Name: keyFirst, Type: setting.Object, Entry: "string",
			Title: setting.Doc("First of an aggregate", "聚合集群的首个集群"),
			Meaning: setting.Doc(
				"`lb_type: cluster`: for each aggregate cluster in `service_list`, the cluster in it that gets "+
					"requests first, the others being for retries: by its endpoints the plugin knows whether the "+
					"cluster is usable, and which cluster has served",
				"`lb_type: cluster`：对 `service_list` 中的每个聚合集群，写出其中首先接收请求的集群，其余用于重试："+
					"插件由它的端点得知该聚合集群是否可用，以及实际由哪个集群提供服务",
			),
		},
		set: setFirst,
	},
	{
		Key: setting.Key{
			Name: keyClusterHeader, Type: setting.Text, Default: `"` + DefaultClusterHeader + `"`,
			Title: setting.Doc("Cluster header", "集群请求头"),
			Meaning: setting.Doc(
				"`lb_type: cluster`: the request header by which the route takes the chosen cluster (`cluster_header` "+
					"of Envoy's route). What clients send in it is removed",
				"`lb_type: cluster`：路由据以选定集群的请求头（Envoy 路由的 `cluster_header`）。客户端所带的该请求头会被移除",
			),
		},
		set: clusterHeader(func(c *Config) *string { return &c.Clusters.Header }),
	},
	{
		Key: setting.Key{
			Name: keyNested, Type: setting.Object, Entry: "any",
			Title: setting.Doc("Endpoint in the cluster", "集群内的端点"),
			Meaning: setting.Doc(
				"`lb_type: cluster`: how an endpoint of the chosen cluster is chosen in the same request: `lb_policy` "+
					"and `lb_config` as for `lb_type: endpoint`, without what names a Redis or the admin interface, "+
					"which is taken from outside; not written: by the gateway",
				"`lb_type: cluster`：在同一请求中如何在选定集群内选择端点：`lb_policy` 和 `lb_config` 与 `lb_type: endpoint` "+
					"相同，但 Redis 与管理接口取自外层；未设置：由网关选择",
			),
		},
		set: setNested,
	},
}
