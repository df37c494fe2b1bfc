package config

import (
	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/lb/setting"
)

// queueKeys are the keys of how requests wait.
var queueKeys = []key{
	{Key: setting.Key{
		Name: keyMaxWait, Type: setting.Duration, Min: 0, Max: setting.Hour, Default: `"0s"`,
		Title: setting.Doc("Longest wait", "最长等待"),
		Meaning: setting.Doc(
			"How long a request waits at most while every endpoint is full, before it is refused; the gateway's "+
				"`stream_idle_timeout` must be longer; 0: none waits",
			"所有端点都已满时，请求最多等待多久，超过后被拒绝；网关的 `stream_idle_timeout` 必须更长；0：不等待",
		),
		Field: func(s any) any { return &s.(*Config).Queue.MaxWait },
	}},
	{Key: setting.Key{
		Name: keyFromZero, Type: setting.Boolean, Default: "false",
		Title: setting.Doc("From zero", "从零开始"),
		Meaning: setting.Doc(
			"A request waits for `max_wait`, too, while its cluster has no endpoint, or only such as are draining: "+
				"for servers that are scaled to zero. Not for clusters whose endpoints the gateway does not list: "+
				"ORIGINAL_DST, dynamic forward proxy, aggregate",
			"集群没有端点、或只有正在排空的端点时，请求也等待至多 `max_wait`：用于缩容到零的服务器。"+
				"不适用于网关不列出端点的集群：ORIGINAL_DST、dynamic forward proxy、aggregate",
		),
		Field: func(s any) any { return &s.(*Config).Queue.FromZero },
	}},
	{Key: setting.Key{
		Name: "lb_config.queue.max_length", Type: setting.Integer, Min: 1, Max: 1e5, Default: "1000",
		Title: setting.Doc("Length", "队列长度"),
		Meaning: setting.Doc(
			"How many requests of one cluster wait at most",
			"每个集群最多有多少请求等待",
		),
		Field: func(s any) any { return &s.(*Config).Queue.MaxLength },
	}},
	{Key: setting.Key{
		Name: "lb_config.queue.max_bytes", Type: setting.Size, Min: 64 << 10, Max: 1 << 30, Default: "67108864",
		Title: setting.Doc("Bytes held", "保存的字节数"),
		Meaning: setting.Doc(
			"How much memory of one gateway the bodies of its waiting requests may take",
			"一个网关最多用多少内存保存等待中的请求的请求体",
		),
		Field: func(s any) any { return &s.(*Config).Queue.MaxBytes },
	}},
	{Key: setting.Key{
		Name: "lb_config.queue.order", Type: setting.Choice, Default: `"weighted"`, Choices: orderNames,
		Title: setting.Doc("Order of classes", "类别的顺序"),
		Meaning: setting.Doc(
			"`weighted`: classes share what is served by their weights; `strict`: a class of higher weight goes first",
			"`weighted`：各类别按权重分享处理能力；`strict`：权重较高的类别优先",
		),
		Field: func(s any) any { return &s.(*Config).Queue.Order },
	}},
	{
		Key: setting.Key{
			Name: keyClasses, Type: setting.Object, Default: `{"default":{"weight":1}}`, Of: classKeys,
			Title: setting.Doc("Classes", "类别"),
			Meaning: setting.Doc(
				"Classes of requests by name, each with its `weight` (0.001 to 1000) and the part of `max_length` "+
					"that is `reserved` for it (0 to 1, less than 1 in all): `{\"interactive\": {\"weight\": 8, "+
					"\"reserved\": 0.1}, \"batch\": 1}`; a number alone is the weight. "+
					"`from_priority` is the lowest priority of requests that are in the class by `priority_from`",
				"按名称列出的请求类别，各有其权重 `weight`（0.001 到 1000）和在 `max_length` 中为其保留的比例 `reserved`"+
					"（0 到 1，合计小于 1）：`{\"interactive\": {\"weight\": 8, \"reserved\": 0.1}, \"batch\": 1}`；"+
					"只写一个数字即为权重。`from_priority` 是按 `priority_from` 归入该类别的请求的最低优先级",
			),
		},
		set: setClasses,
	},
	{
		Key: setting.Key{
			Name: keyClassHeader, Type: setting.Text, Max: maxHeader,
			Title: setting.Doc("Class header", "类别请求头"),
			Meaning: setting.Doc(
				"Header that contains the name of the request's class. A trusted filter must set it",
				"含有请求类别名称的请求头。须由可信的过滤器设置",
			),
			Field: func(s any) any { return &s.(*Config).Queue.ClassHeader },
		},
		set: header(func(q *Queue) *string { return &q.ClassHeader }),
	},
	{
		Key: setting.Key{
			Name: keyDefaultClass, Type: setting.Text, Max: maxClassName,
			Title: setting.Doc("Default class", "默认类别"),
			Meaning: setting.Doc(
				"Class of the requests without that header, or with an unknown name in it. Default: the class of "+
					"the lowest weight, the last by name of several",
				"没有该请求头或其中名称未知的请求所属的类别。默认：权重最低的类别，有多个时取名称排在最后的",
			),
			Field: func(s any) any { return &s.(*Config).Queue.DefaultClass },
		},
		set: className(func(q *Queue) *string { return &q.DefaultClass }),
	},
	{
		Key: setting.Key{
			Name: keyPriority, Type: setting.Array, Entry: "string",
			Title: setting.Doc("Priority", "优先级"),
			Meaning: setting.Doc(
				"Where the priority of a request is, a whole number, in the form of `session.key`: the first of these "+
					"that it has. If its header names no class, it is in the class with the highest `from_priority` "+
					"up to that. Default: no request has one",
				"请求的优先级（整数）取自何处，写法同 `session.key`，取列表中第一个存在的。请求头未指明类别时，"+
					"请求属于 `from_priority` 不超过该优先级的类别中数值最高的一个。默认：请求没有优先级",
			),
		},
		set: sources(func(c *Config) *[]Source { return &c.Queue.PriorityFrom }),
	},
	{
		Key: setting.Key{
			Name: keyFirstTurn, Type: setting.Text, Max: maxClassName,
			Title: setting.Doc("Class of first turns", "首轮类别"),
			Meaning: setting.Doc(
				"Class of requests whose header names none and whose body has no answer of a model: they begin a "+
					"conversation. Default: the default class",
				"请求头未指明类别、且请求体中没有模型应答（即开始一段对话）的请求所属的类别。默认：默认类别",
			),
			Field: func(s any) any { return &s.(*Config).Queue.FirstTurn },
		},
		set: className(func(q *Queue) *string { return &q.FirstTurn }),
	},
	{
		Key: setting.Key{
			Name: keyLaterTurn, Type: setting.Text, Max: maxClassName,
			Title: setting.Doc("Class of later turns", "后续轮次类别"),
			Meaning: setting.Doc(
				"Likewise, of requests whose body has such an answer or names an earlier one: with a larger weight, "+
					"agents that are under way go before new ones",
				"同上，适用于请求体中已有模型应答或引用了先前应答的请求：给它更大的权重，进行中的 agent 便先于新开始的",
			),
			Field: func(s any) any { return &s.(*Config).Queue.LaterTurn },
		},
		set: className(func(q *Queue) *string { return &q.LaterTurn }),
	},
	{Key: setting.Key{
		Name: "lb_config.queue.aging", Type: setting.Duration, Min: 0, Max: setting.Hour, Default: `"10s"`,
		Title: setting.Doc("Aging", "老化时间"),
		Meaning: setting.Doc(
			"Once requests of a class have waited for this long, the class gets a tenth of what is granted at least, "+
				"shared with others of that kind; 0: never",
			"某个类别的请求等待达到此时长后，该类别与其他同样的类别合计至少得到所授予总量的十分之一；0：从不",
		),
		Field: func(s any) any { return &s.(*Config).Queue.Aging },
	}},
	{
		Key: setting.Key{
			Name: "lb_config.queue.skip", Type: setting.Integer, Min: 0, Max: 1000, Default: "32",
			Title: setting.Doc("Others passed", "可越过的请求数"),
			Meaning: setting.Doc(
				"prefix_cache: how many others of its class and tenant a waiting request may pass at an endpoint that "+
					"has its prompt in the KV cache",
				"prefix_cache：在 KV cache 中已有其提示词的端点上，等待中的请求最多可越过多少个同一类别、同一租户的其他请求",
			),
			Field: func(s any) any { return &s.(*Config).Queue.Skip },
		},
		users: promptPolicies(),
	},
	{
		Key: setting.Key{
			Name: "lb_config.queue.patience", Type: setting.Duration, Min: 0, Max: setting.Hour, Default: `"2s"`,
			Title: setting.Doc("Patience", "为优选端点等待"),
			Meaning: setting.Doc(
				"prefix_cache: how long a request waits at most for a full endpoint that costs less than every open "+
					"one, and, if one was open when it came, no longer than four times the time to compute what is "+
					"cached there; 0: it takes an open one at once",
				"prefix_cache：已满的端点比所有未满的端点代价都低时，请求最多为其等待多久；如果到达时有未满的端点，"+
					"则不超过计算该处已缓存部分所需时间的四倍；0：立即使用未满的端点",
			),
			Field: func(s any) any { return &s.(*Config).Queue.Patience },
		},
		users: promptPolicies(),
	},
	{
		Key: setting.Key{
			Name: "lb_config.queue.deadline_header", Type: setting.Text, Max: maxHeader,
			Title: setting.Doc("Deadline header", "期限请求头"),
			Meaning: setting.Doc(
				"Header with the time that the client gives the whole answer, in milliseconds or such as `30s`; a "+
					"request that could not make it after a wait is placed at once or refused",
				"给出客户端为完整应答留出的时间的请求头，以毫秒计或写作 `30s`；若等待之后无法按时完成，请求立即被分配或拒绝",
			),
			Field: func(s any) any { return &s.(*Config).Queue.DeadlineHeader },
		},
		set: header(func(q *Queue) *string { return &q.DeadlineHeader }),
	},
	{
		Key: setting.Key{
			Name: "lb_config.queue.tenant_header", Type: setting.Text, Max: maxHeader,
			Title: setting.Doc("Tenant header", "租户请求头"),
			Meaning: setting.Doc(
				"Header that names the tenant: within a class the tenant that was served least goes first. A "+
					"trusted filter must set it",
				"指明租户的请求头：同一类别中，得到处理最少的租户优先。须由可信的过滤器设置",
			),
			Field: func(s any) any { return &s.(*Config).Queue.TenantHeader },
		},
		set: header(func(q *Queue) *string { return &q.TenantHeader }),
	},
	{Key: setting.Key{
		Name: keyTenantShare, Type: setting.Number, Min: 0.001, Max: 1, Default: "1",
		Title: setting.Doc("Share of a tenant", "租户占比上限"),
		Meaning: setting.Doc(
			"Part of `max_length` that one tenant may take in a class, one place at least; 1: all",
			"一个租户在一个类别中最多可占 `max_length` 的比例，至少一个位置；1：全部",
		),
		Field: func(s any) any { return &s.(*Config).Queue.TenantMaxShare },
	}},
	{Key: setting.Key{
		Name: keyFairBy, Type: setting.Choice, Default: `"tenant"`, Choices: fairByNames,
		Title: setting.Doc("Who takes turns", "按谁轮流"),
		Meaning: setting.Doc(
			"`tenant`: within a class the tenant that was served least goes first; `session`: and of its sessions, by "+
				"`session.key`, the one that was, in tokens that were computed. Requests without a key are one session",
			"`tenant`：同一类别中，得到处理最少的租户优先；`session`：其各会话（按 `session.key`）之间也是如此，以实际计算的 "+
				"token 计。没有会话键的请求合为一个会话",
		),
		Field: func(s any) any { return &s.(*Config).Queue.FairBy },
	}},
	{Key: setting.Key{
		Name: "lb_config.queue.retry_budget", Type: setting.Integer, Min: 0, Max: 100, Default: "10",
		Title: setting.Doc("Retry budget", "重试预算"),
		Meaning: setting.Doc(
			"Percent of requests that may be retries while requests wait, and in the 10 s after one was refused for "+
				"want of room; further ones are refused, but for three in 10 s and worker",
			"有请求等待时，以及有请求因没有空位被拒绝后的 10 秒之内，重试最多可占请求的百分比；超出的重试被拒绝，"+
				"但每个 worker 每 10 秒总允许三个",
		),
		Field: func(s any) any { return &s.(*Config).Queue.RetryBudget },
	}},
}

// classKeys are the members of a class. The first one is what a number alone is.
var classKeys = []setting.Key{
	{
		Name: "weight", Type: setting.Number, Min: minWeight, Max: maxWeight, Default: "1",
		Field: func(s any) any { return &s.(*Class).Weight },
	},
	{
		Name: "reserved", Type: setting.Number, Min: 0, Max: 1, Default: "0",
		Field: func(s any) any { return &s.(*Class).share },
	},
	{
		Name: "from_priority", Type: setting.Integer, Min: -maxPriority, Max: maxPriority,
		Field: func(s any) any { return &s.(*Class).FromPriority },
	},
}

// promptPolicies returns the policies that know where a prompt is cached.
func promptPolicies() []string { return usersOf(func(n *policy.Needs) bool { return n.Prompt }) }
