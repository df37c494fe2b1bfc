package config

import (
	"github.com/warmgate/warmgate/lb/setting"
)

// keyAdmin is the key by which stock Envoy's endpoints are found, of one cluster or of several.
const keyAdmin = "lb_config.envoy.admin_cluster"

// The keys of lb_type cluster that no policy owns.
const (
	keyClusters      = "lb_config.service_list"
	keyClusterHeader = "lb_config.cluster_header"
	keyNested        = "lb_config.endpoint"
)

// clusterKeys are the keys for choosing among clusters.
var clusterKeys = []key{
	{
		Key: setting.Key{
			Name: keyClusters, Type: setting.Array,
			Title: setting.Doc("Clusters", "集群列表"),
			Meaning: setting.Doc(
				"`lb_type: cluster`, required there: the names of the clusters to choose among, as Envoy has them, 64 "+
					"at most; a string counts as one name",
				"`lb_type: cluster` 时必填：可选集群的名称（与 Envoy 中的一致），最多 64 个；单个字符串视为一个名称",
			),
		},
		set: setClusters,
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
			Name: keyNested, Type: setting.Object,
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
