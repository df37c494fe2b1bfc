package config

import (
	"github.com/warmgate/warmgate/lb/region"
	"github.com/warmgate/warmgate/lb/setting"
)

// forwardingKeys have an effect only where requests are forwarded, and ownRegionKeys in a region only.
var (
	forwardingKeys = []string{
		"lb_config.regions.probe_interval", "lb_config.regions.queue_buffer", keyAllowed,
		"lb_config.regions.cached_first", "lb_config.regions.snapshot_bytes", "lb_config.regions.cluster_header",
		keyGone, keySteady,
	}
	adoptingKeys  = []string{keyGone, keySteady}
	ownRegionKeys = append([]string{keyRegionCluster, keyRegionSecret, keyRegionBefore}, forwardingKeys...)
)

// regionKeys are the keys of how requests are forwarded to other regions.
var regionKeys = []key{
	{
		Key: setting.Key{
			Name: keyRegionName, Type: setting.Text, Max: region.MaxName,
			Title: setting.Doc("Name", "名称"),
			Meaning: setting.Doc(
				"Name of the gateway's own region, the same in all its gateways; it takes what other regions with the "+
					"same `secret` forward to it. Default: there are no regions",
				"网关自身所在地域的名称，该地域的所有网关须一致；它接收 `secret` 相同的其他地域转发来的请求。默认：没有地域",
			),
			Field: func(s any) any { return &s.(*Config).Regions.Name },
		},
		set: setRegionName,
	},
	{
		Key: setting.Key{
			Name: keyRegionCluster, Type: setting.Text, Max: maxClusterName,
			Title: setting.Doc("Own cluster", "本地集群"),
			Meaning: setting.Doc(
				"With `name` required: the cluster of this region's own servers, to which the route leads unless a "+
					"request is forwarded",
				"设置 `name` 时必填：本地域自身服务器所在的集群；请求未被转发时，路由通往该集群",
			),
			Field: func(s any) any { return &s.(*Config).Regions.Cluster },
		},
		set: setRegionCluster,
	},
	{
		Key: setting.Key{
			Name: keyPeers, Type: setting.Array, Of: peerKeys,
			Title: setting.Doc("Other regions", "其他地域"),
			Meaning: setting.Doc(
				"The other regions, to whose gateways requests are forwarded while no endpoint here is open, each "+
					"with its `name`, the `cluster` that leads to its gateways, and the `rtt` of a round trip, by "+
					"which regions are compared until one was measured: "+
					"`[{\"name\": \"eu\", \"cluster\": \"warmgate-peer-eu\", \"rtt\": \"80ms\"}]`. "+
					"`forward_cluster` is where requests are sent, if that differs: an aggregate of `cluster` and the "+
					"own one, in which a retry comes home. "+
					"With `\"adopt\": {\"cluster\": \"eu-servers\"}` its servers, in that cluster, are served from "+
					"here while its gateways are gone. Clients cannot have these clusters",
				"其他地域：本地没有未满的端点时，请求转发到其网关；每项有其名称 `name`、通往其网关的集群 `cluster`，以及测得之前用"+
					"于比较各地域的往返时间 `rtt`：`[{\"name\": \"eu\", \"cluster\": \"warmgate-peer-eu\", \"rtt\": \"80ms\"}]`。"+
					"请求实际发往的集群若不同，则为 `forward_cluster`：由 `cluster` 和本地集群组成的聚合集群，重试由此回到本地。"+
					"设置 `\"adopt\": {\"cluster\": \"eu-servers\"}` 后，当其网关全部失联时，该集群中的服务器由本地代管。"+
					"客户端不能指定这些集群",
			),
		},
		set: setPeers,
	},
	{Key: setting.Key{
		Name: "lb_config.regions.probe_interval", Type: setting.Duration,
		Min: 50, Max: 10 * setting.Second, Default: `"200ms"`,
		Title: setting.Doc("Probe interval", "探测间隔"),
		Meaning: setting.Doc(
			"How often each of the other regions is asked how many more requests its endpoints take, and for its "+
				"queue; one that misses two probes in a row gets nothing",
			"每隔多久向其他地域询问其端点还能接收多少请求以及其队列；连续两次没有应答的地域不再接收转发",
		),
		Field: func(s any) any { return &s.(*Config).Regions.Interval },
	}},
	{Key: setting.Key{
		Name: "lb_config.regions.queue_buffer", Type: setting.Integer, Min: 0, Max: 1000, Default: "2",
		Title: setting.Doc("Queue buffer", "队列余量"),
		Meaning: setting.Doc(
			"How many requests may wait in another region that still gets more",
			"另一地域中最多有多少请求等待时，仍向其转发",
		),
		Field: func(s any) any { return &s.(*Config).Regions.Buffer },
	}},
	{Key: setting.Key{
		Name: keyGone, Type: setting.Duration, Min: 500, Max: setting.Hour, Default: `"10s"`,
		Title: setting.Doc("Gone after", "失联时间"),
		Meaning: setting.Doc(
			"How long a region's gateways must have answered nobody until they are gone: the nearest region that "+
				"lists `adopt` then serves its servers. Set it longer than gateways take to start, and longer than "+
				"health checks take to find dead what went down with them",
			"一个地域的网关多久对任何地域都没有应答后视为失联，其服务器由列有 `adopt` 的最近地域代管。应长于网关的启动时间，"+
				"也应长于健康检查发现服务器随之失效所需的时间",
		),
		Field: func(s any) any { return &s.(*Config).Regions.Gone },
	}},
	{Key: setting.Key{
		Name: keySteady, Type: setting.Duration, Min: 0, Max: setting.Hour, Default: `"10s"`,
		Title: setting.Doc("Back after", "恢复时间"),
		Meaning: setting.Doc(
			"For how long these gateways answer every probe until they get their servers back",
			"失联后恢复的网关须连续多久应答每次探测，其服务器才交还给它们",
		),
		Field: func(s any) any { return &s.(*Config).Regions.Steady },
	}},
	{
		Key: setting.Key{
			Name: keyRegionSecret, Type: setting.Secret,
			Title: setting.Doc("Secret", "密钥"),
			Meaning: setting.Doc(
				"With `name` required: random text of 16 bytes or more, the same in all regions, by which their "+
					"gateways know each other; never written to a log",
				"设置 `name` 时必填：至少 16 字节的随机文本，所有地域相同，各网关以此互相识别；不会写入任何日志",
			),
			Field: func(s any) any { return (*string)(&s.(*Config).Regions.Secret) },
		},
		set: setRegionSecret,
	},
	{
		Key: setting.Key{
			Name: keyRegionBefore, Type: setting.Secret,
			Title: setting.Doc("Previous secret", "旧密钥"),
			Meaning: setting.Doc(
				"While `secret` is replaced in one region after the other: the secret before, which is valid beside "+
					"it. Default: none",
				"逐个地域更换 `secret` 期间，与其同时有效的旧密钥。默认：无",
			),
			Field: func(s any) any { return (*string)(&s.(*Config).Regions.Previous) },
		},
		set: setRegionBefore,
	},
	{
		Key: setting.Key{
			Name: keyAllowed, Type: setting.Array,
			Title: setting.Doc("Allowed regions", "允许的地域"),
			Meaning: setting.Doc(
				"Names of the `peers` to which requests may be forwarded, also different ones in each rule; `[]`: "+
					"none, requests wait here or are refused. Default: all",
				"请求可以转发到 `peers` 中的哪些地域（按名称），每条规则可各不相同；`[]`：不转发，请求在本地等待或被拒绝。默认：全部",
			),
		},
		set: setAllowed,
	},
	{Key: setting.Key{
		Name: "lb_config.regions.cached_first", Type: setting.Boolean, Default: "false",
		Title: setting.Doc("Cached first", "缓存优先"),
		Meaning: setting.Doc(
			"`true`: a request goes to the region that was forwarded the beginning of its prompt even while an "+
				"endpoint here is open, if the endpoints here have at least a quarter of the prompt less. "+
				"Not with Redis",
			"`true`：若某地域曾收到该提示词的开头，而本地端点已缓存的部分至少少该提示词的四分之一，则即使本地有未满的端点，请求仍转发到该地域。"+
				"使用 Redis 时无效",
		),
		Field: func(s any) any { return &s.(*Config).Regions.CachedFirst },
	}},
	{Key: setting.Key{
		Name: "lb_config.regions.snapshot_bytes", Type: setting.Size, Min: 64 << 10, Max: 1 << 30, Default: "1048576",
		Title: setting.Doc("Memory of the snapshot", "快照内存"),
		Meaning: setting.Doc(
			"How much memory of a gateway the index may take of which prompts were forwarded where",
			"网关最多用多少内存记录哪些提示词转发到了哪里",
		),
		Field: func(s any) any { return &s.(*Config).Regions.Memory },
	}},
	{
		Key: setting.Key{
			Name: "lb_config.regions.cluster_header", Type: setting.Text, Default: `"` + DefaultClusterHeader + `"`,
			Title: setting.Doc("Cluster header", "集群请求头"),
			Meaning: setting.Doc(
				"The request header by which the route takes the cluster, at home or of another region "+
					"(`cluster_header` of Envoy's route). What clients send in it is removed",
				"路由据以选定集群（本地或其他地域）的请求头（Envoy 路由的 `cluster_header`）。客户端所带的该请求头会被移除",
			),
			Field: func(s any) any { return &s.(*Config).Regions.Header },
		},
		set: clusterHeader(func(c *Config) *string { return &c.Regions.Header }),
	},
}

// peerKeys are the members of a peer.
var peerKeys = []setting.Key{
	{Name: "name", Type: setting.Text, Max: region.MaxName},
	{Name: "cluster", Type: setting.Text, Max: maxClusterName},
	peerRTT,
	{Name: "forward_cluster", Type: setting.Text, Max: maxClusterName},
	{Name: "adopt", Type: setting.Object},
}

// peerRTT is at most as long as an answer is waited for.
var peerRTT = setting.Key{
	Name: "rtt", Type: setting.Duration, Min: 0, Max: setting.Second, Default: `"100ms"`,
	Field: func(s any) any { return &s.(*Peer).RTT },
}

// regionsSection describes the section of these keys.
func regionsSection() setting.Section {
	return setting.Section{
		Name:  "lb_config.regions",
		Title: setting.Doc("Regions", "地域"),
		Meaning: setting.Doc(
			"How requests are forwarded to the gateways of other regions while no endpoint here is open",
			"本地没有未满的端点时，请求如何转发到其他地域的网关",
		),
	}
}
