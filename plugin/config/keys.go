package config

import (
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/lb/push"
	"github.com/warmgate/warmgate/lb/setting"
)

// Where a new key goes:
//   - One policy's own key: lb/policy/<policy>.go, as an entry in the Keys of its [policy.Descriptor] and a field of
//     its settings, such as policy.CacheConfig. Code of this package is not changed.
//   - A key that no policy owns, or that several use: here, in the keys*.go of its section, with a field of [Config] or
//     of a struct in it. Which policies it is for follows from [policy.Needs]: see metricsKeys.
//
// What else has to be changed:
//   - If it is compared with other keys: the policy's Check, or check.go.
//   - If package lb reads it and no policy owns it: a field of engines.Config, which the parser fills in, or of
//     health.Config or health.ClusterConfig, which plugin/clusters/lbconfig.go does. A new field of ClusterConfig must
//     also be compared in its method Equal (lb/health/cluster_config.go): otherwise rules with different values share
//     lists of candidates.
//   - If the plugin reads it: plugin/core, from the request's [Config]. Config.Prefix holds the keys of prefix_cache,
//     Config.Engines those of endpoint_metrics and of scraping.
//   - The tests and documents: see CONTRIBUTING.md.

// mainKeys are the keys of the plugin itself, without those of the queue, of health, of tokens and of Redis.
var mainKeys = []key{
	{Key: setting.Key{
		Name: "enabled", Type: setting.Boolean, Default: "true",
		Title: setting.Doc("Enabled", "启用"),
		Meaning: setting.Doc(
			"`false` leaves every request to the gateway's native balancing",
			"`false` 时所有请求都交给网关的原生负载均衡",
		),
		Field: func(s any) any { return &s.(*Config).Enabled },
	}},
	{
		Key: setting.Key{
			Name: "lb_type", Type: setting.Choice, Default: `"endpoint"`, Choices: []string{typeEndpoint, typeCluster},
			Title: setting.Doc("Balancing level", "负载均衡层级"),
			Meaning: setting.Doc(
				"What is chosen among; `endpoint`: the endpoints of the request's cluster; `cluster`: the clusters of "+
					"`service_list`",
				"在什么范围内选择；`endpoint`：请求所属集群的各个端点；`cluster`：`service_list` 中的各个集群",
			),
			Field: func(s any) any { return &s.(*Config).Type },
		},
		set: lbType,
	},
	{Key: setting.Key{
		Name: "lb_policy", Type: setting.Choice, Choices: policyNames(),
		Title:   setting.Doc("Policy", "策略"),
		Meaning: setting.Doc("How the choice is made; required. {policies}", "选择策略，必填。{policies}"),
		Field:   func(s any) any { return &s.(*Config).Policy },
	}},
	{Key: setting.Key{
		Name: "lb_config.unit", Type: setting.Choice, Default: `"requests"`, Choices: lb.UnitNames,
		Title: setting.Doc("Unit of load", "负载单位"),
		Meaning: setting.Doc(
			"What counts as work: `requests`, or `tokens` (prompt and expected output); with {token policies} "+
				"always `tokens`",
			"工作量的单位：`requests` 为请求数，`tokens` 为 token 数（提示词加预期输出）；使用 {token policies} "+
				"时总是 `tokens`",
		),
		Field: func(s any) any { return &s.(*Config).Unit },
	}},
	{Key: setting.Key{
		Name: keyMaxInflight, Type: setting.Integer, Min: 0, Max: 1e6, Default: "0",
		Title: setting.Doc("In-flight cap", "在途上限"),
		Meaning: setting.Doc(
			"Maximum number of requests in flight on an endpoint, times its configured weight; while every endpoint "+
				"is full, requests wait in the queue if there is one, or else are refused; 0: no cap",
			"每个端点的在途请求上限，乘以其所配置的权重；所有端点都已满时，新请求在队列中等待，未配置队列则被拒绝；"+
				"0：不设上限",
		),
		Field: func(s any) any { return &s.(*Config).MaxInflight },
	}},
	{Key: setting.Key{
		Name: "lb_config.maxRequestCount", Type: setting.Integer, Min: 0, Max: 1e6, Loose: true,
		Title: setting.Doc("In-flight cap (Higress's name)", "在途上限（Higress 的名称）"),
		Meaning: setting.Doc(
			"Higress's name for `max_inflight`",
			"`max_inflight` 在 Higress 中的名称",
		),
		Field: func(s any) any { return &s.(*Config).maxRequestCount },
	}},
	{Key: setting.Key{
		Name: keyMaxInflightTokens, Type: setting.Integer, Min: 0, Max: 1e9, Default: "0",
		Title: setting.Doc("In-flight cap in tokens", "在途 token 上限"),
		Meaning: setting.Doc(
			"With `unit: tokens`: number of tokens in flight from which on an endpoint takes no request, times its "+
				"configured weight. An endpoint without requests takes one of any size; with `max_inflight` too, an "+
				"endpoint is full when either is reached; 0: no cap",
			"使用 `unit: tokens` 时：端点的在途 token 达到此数（乘以其所配置的权重）后不再接收请求。没有请求的端点接收任意大小的请求；"+
				"同时设置 `max_inflight` 时，达到任一上限即为已满；0：不设上限",
		),
		Field: func(s any) any { return &s.(*Config).MaxInflightTokens },
	}},
	{Key: setting.Key{
		Name: keyPush, Type: setting.Choice, Default: `"blind"`, Choices: push.Names,
		Title: setting.Doc("Push", "派发方式"),
		Meaning: setting.Doc(
			"When an endpoint takes another request; `blind`: always, up to `max_inflight` and `max_inflight_tokens` "+
				"if they are set; `outstanding`: up to them, one of which is required; `pending`: while no request "+
				"waits inside its engine, by its metrics or else by how long answers wait, and up to them if they "+
				"are set",
			"端点何时再接收请求；`blind`：总是接收，若设置了 `max_inflight` 或 `max_inflight_tokens` 则以其为限；"+
				"`outstanding`：以这两者为限，至少设置其一；`pending`：引擎内没有请求排队时接收（依据其指标，没有指标则依据"+
				"应答等待的时间），若设置了这两者也以其为限",
		),
		Field: func(s any) any { return &s.(*Config).Push },
	}},
	{Key: setting.Key{
		Name: keyPushAhead, Type: setting.Integer, Min: 0, Max: 1000, Default: "0",
		Title: setting.Doc("Pushed ahead", "提前派发"),
		Meaning: setting.Doc(
			"`push: pending`: how many requests beyond what it can run an endpoint may have at hand",
			"`push: pending`：端点在能够同时运行的请求之外，还可以预先持有多少个请求",
		),
		Field: func(s any) any { return &s.(*Config).PushAhead },
	}},
	{Key: setting.Key{
		Name: "lb_config.overload.status", Type: setting.Integer, Min: 400, Max: 599, Default: "429",
		Title: setting.Doc("Status", "状态码"),
		Meaning: setting.Doc(
			"Status of the answer to a refused request. A request is refused if no endpoint has room for it and "+
				"there is no queue; if the queue is full, or its time there is over; if it is a retry beyond "+
				"`queue.retry_budget`; or if it is over a budget of token_budget",
			"请求被拒绝时返回的状态码。以下情况请求被拒绝：没有端点能容纳它且没有队列；队列已满，或它在队列中的时间已到；"+
				"它是超出 `queue.retry_budget` 的重试；或超出 token_budget 的预算",
		),
		Field: func(s any) any { return &s.(*Config).Overload.Status },
	}},
	{Key: setting.Key{
		Name: "lb_config.overload.retry_after", Type: setting.Duration,
		Min: 0, Max: setting.Hour, Default: `"1s"`,
		Title: setting.Doc("Retry-After", "重试等待"),
		Meaning: setting.Doc(
			"Retry-After of that answer while no request waits, rounded up to seconds. While some wait it is the "+
				"time after which a new one is likely to get through, at most an hour; 0: no Retry-After, ever",
			"没有请求等待时，该应答的 Retry-After，向上取整到秒。有请求等待时，则为新请求预计得到处理所需的时间，最多一小时；"+
				"0：始终不带此响应头",
		),
		Field: func(s any) any { return &s.(*Config).Overload.RetryAfter },
	}},
	{
		Key: setting.Key{
			Name: "lb_config.weights", Type: setting.Object,
			Title: setting.Doc("Weights", "权重"),
			Meaning: setting.Doc(
				"Weight of each endpoint relative to the others, 0.001 to 1000, by `ip:port`; it replaces the "+
					"weight that the gateway reports, and nothing is learned. `lb_type: cluster`: of each cluster, by "+
					"its name",
				"各端点相对于其他端点的权重（0.001 到 1000），以 `ip:port` 为键；优先于网关给出的权重，且不再学习权重。"+
					"`lb_type: cluster`：各集群的权重，以集群名为键",
			),
		},
		set: setWeights,
	},
	{
		Key: setting.Key{
			Name: keyZones, Type: setting.Number, Min: 0, Max: 1e6, Default: "0",
			Meaning: setting.Doc(
				"Stock Envoy: an endpoint in another zone than the gateway's costs as if it had this many "+
					"more requests in flight (`unit: tokens`: of mean length); 0: zones do not matter",
				"标准 Envoy：与网关不在同一可用区的端点，其代价相当于多出这么多在途请求（`unit: tokens` 时"+
					"为平均长度的请求）；0：不区分可用区",
			),
			Field: func(s any) any { return &s.(*Config).ZonePenalty },
		},
		only: onEnvoy,
	},
	{Key: setting.Key{
		Name: keySubset, Type: setting.Choice, Default: `"none"`,
		Choices: []string{SubsetNone, SubsetHeader, SubsetMetadata},
		Title:   setting.Doc("Subset hint", "子集提示"),
		Meaning: setting.Doc(
			"Who says to which endpoints a request is limited, as to an endpoint picker of the Inference Extension; "+
				"`header`: the header `x-gateway-destination-endpoint-subset`, which has to be removed from what "+
				"clients send; `metadata`: a filter in front of the plugin, in the request's metadata, under that "+
				"name in `envoy.lb.subset_hint`. A request for which none of them can be chosen is answered 503",
			"由谁指定请求只能发往哪些端点，与 Inference Extension 的端点选择器相同；`header`：请求头 "+
				"`x-gateway-destination-endpoint-subset`，须从客户端的请求中移除；`metadata`：插件之前的过滤器，"+
				"写在请求元数据的 `envoy.lb.subset_hint` 中，名称相同。其中没有端点可选的请求以 503 应答",
		),
		Field: func(s any) any { return &s.(*Config).SubsetHint },
	}},
	{Key: setting.Key{
		Name: "lb_config.debug_headers", Type: setting.Boolean, Default: "false",
		Title: setting.Doc("Debug headers", "调试响应头"),
		Meaning: setting.Doc(
			"Report endpoint, reason and load in `x-warmgate-*` response headers",
			"在 `x-warmgate-*` 响应头中给出端点、原因和负载",
		),
		Field: func(s any) any { return &s.(*Config).DebugHeaders },
	}},
	{Key: setting.Key{
		Name: "lb_config.shadow", Type: setting.Boolean, Default: "false",
		Title: setting.Doc("Shadow mode", "影子模式"),
		Meaning: setting.Doc(
			"Decide and count, but let the gateway route",
			"只决策和计数，仍由网关路由",
		),
		Field: func(s any) any { return &s.(*Config).Shadow },
	}},
	{Key: setting.Key{
		Name: "lb_config.enableDetailLog", Type: setting.Boolean, Default: "false", Loose: true,
		Title: setting.Doc("Detail log", "详细日志"),
		Meaning: setting.Doc(
			"Log each decision",
			"记录每次决策的日志",
		),
		Field: func(s any) any { return &s.(*Config).DetailLog },
	}},
	{
		Key: setting.Key{
			Name: "lb_config.envoy.admin_cluster", Type: setting.Text,
			Meaning: setting.Doc(
				"Stock Envoy: cluster of Envoy's own admin interface, where endpoints are read; this or "+
					"`endpoints` is required",
				"标准 Envoy：指向 Envoy 自身管理接口的集群，端点列表由此读取；与 `endpoints` 二者必填其一",
			),
			Field: func(s any) any { return &s.(*Config).EnvoyCfg.AdminCluster },
		},
		only: onEnvoy,
	},
	{
		Key: setting.Key{
			Name: "lb_config.envoy.poll_interval", Type: setting.Duration,
			Min: 100, Max: setting.Minute, Default: `"1s"`,
			Meaning: setting.Doc(
				"Stock Envoy: how often the admin interface is read",
				"标准 Envoy：读取管理接口的间隔",
			),
			Field: func(s any) any { return &s.(*Config).EnvoyCfg.PollInterval },
		},
		only: onEnvoy,
	},
	{
		Key: setting.Key{
			Name: "lb_config.envoy.endpoints", Type: setting.Array,
			Meaning: setting.Doc(
				"Stock Envoy: fixed endpoints, each `\"ip:port\"` or `{\"address\": \"ip:port\", \"weight"+
					"\": 2}`",
				"标准 Envoy：固定的端点列表，每项为 `\"ip:port\"` 或 `{\"address\": \"ip:port\", \"weight"+
					"\": 2}`",
			),
		},
		set: setEndpoints, only: onEnvoy,
	},
}

// policyNames returns what lb_policy may be.
func policyNames() []string {
	var names []string
	for _, d := range policy.All() {
		names = append(append(names, d.Name), d.Aliases...)
	}
	return names
}
