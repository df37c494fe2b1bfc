package config

import (
	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/lb/setting"
)

// apiKeys returns the keys of the admission API, which is for policies with budgets.
func apiKeys() []key {
	return usedBy(admissionKeys, usersOf(func(n *policy.Needs) bool { return n.Budget }))
}

var admissionKeys = []key{
	{
		Key: setting.Key{
			Name: keyAPIPath, Type: setting.Text, Max: maxAPIPath,
			Title: setting.Doc("Path", "路径"),
			Meaning: setting.Doc(
				"token_budget with `lb_type: cluster`: where the gateway answers the admission API, such as "+
					"`/warmgate/v1`, for callers that send requests to the targets themselves; no request to this "+
					"path, or below it, is forwarded. Default: there is no such API",
				"`lb_type: cluster` 的 token_budget：网关在此路径（如 `/warmgate/v1`）提供准入 API，供自行向各目标发送请求的调用方使用；"+
					"发往该路径及其下级路径的请求都不会被转发。默认：不提供该 API",
			),
			Field: func(s any) any { return &s.(*Config).API.Path },
		},
		set: setAPIPath(func(c *Config) *string { return &c.API.Path }),
	},
	{
		Key: setting.Key{
			Name: keyAPIToken, Type: setting.Secret,
			Title: setting.Doc("Token", "令牌"),
			Meaning: setting.Doc(
				"With `path` required, unless there are `callers`: who calls the API sends it as "+
					"`authorization: Bearer …`; 16 bytes or more, never written to a log",
				"设置 `path` 时必填，除非有 `callers`：API 调用方以 `authorization: Bearer …` 发送该令牌；至少 16 字节，"+
					"不会写入任何日志",
			),
			Field: func(s any) any { return (*string)(&s.(*Config).API.Token) },
		},
		set: setAPIToken(func(c *Config) *policy.Secret { return &c.API.Token }),
	},
	{
		Key: setting.Key{
			Name: keyCallers, Type: setting.Object, Of: callerKeys, Entries: maxCallers,
			Title: setting.Doc("Callers", "调用方"),
			Meaning: setting.Doc(
				"Callers with tokens of their own, beside `token` or in its place: `{\"batch\": {\"token\": \"…\", "+
					"\"share\": 0.5, \"class\": \"batch\"}}`. `token` is required; up to `share` (0.01 to 1, "+
					"default 1) of each target's `max_concurrent_requests` the caller's tasks are admitted, so that "+
					"the rest stays free for others; `class` is that of all its tasks; with `sets_limits: true` it "+
					"may set limits of targets at run time. Names are shown in statistics. 64 at most",
				"拥有各自令牌的调用方，可与 `token` 并用或取代它：`{\"batch\": {\"token\": \"…\", \"share\": 0.5, "+
					"\"class\": \"batch\"}}`。`token` 必填；目标的在途请求数低于其 `max_concurrent_requests` 的 `share`"+
					"（0.01 到 1，默认 1）时才接收该调用方的任务，其余留给别人；`class` 是其全部任务的类别；"+
					"`sets_limits: true` 允许它在运行时设置目标的限额。"+
					"名称会出现在统计中。最多 64 个",
			),
		},
		set: setCallers,
	},
	{Key: setting.Key{
		Name: keyAPIOnly, Type: setting.Boolean, Default: "false",
		Title: setting.Doc("Only the API", "仅 API"),
		Meaning: setting.Doc(
			"The targets are for tasks alone: all other requests are left to the gateway, neither steered, charged "+
				"nor refused; they are counted as `disabled`",
			"各目标仅供任务使用：其他请求一律交给网关，既不选路、不扣额度，也不拒绝；它们计为 `disabled`",
		),
		Field: func(s any) any { return &s.(*Config).API.Only },
	}},
	{Key: setting.Key{
		Name: keyLeaseTTL, Type: setting.Duration, Min: setting.Second, Max: setting.Hour, Default: `"30s"`,
		Title: setting.Doc("Lease TTL", "租约时长"),
		Meaning: setting.Doc(
			"How long a task lives without a heartbeat; then it is abandoned, and what it was charged is given back",
			"任务没有心跳时保留多久；到期即视为放弃，已扣除的额度随之归还",
		),
		Field: func(s any) any { return &s.(*Config).API.LeaseTTL },
	}},
	{Key: setting.Key{
		Name: keyMaxHint, Type: setting.Duration, Min: 100, Max: setting.Hour, Default: `"5s"`,
		Title: setting.Doc("Longest wait told", "告知的最长等待"),
		Meaning: setting.Doc(
			"How long a caller is told to wait at most, though it may have to wait for longer: so it soon notices a "+
				"higher rate, a new target, or tokens that were given back",
			"最多告知调用方等待多久，即使实际可能要等更久：这样它能很快察觉提高的限额、新的目标或退还的 token",
		),
		Field: func(s any) any { return &s.(*Config).API.MaxHint },
	}},
}

// apiSection describes the section of these keys.
func apiSection() setting.Section {
	return setting.Section{
		Name:  "lb_config.api",
		Title: setting.Doc("Admission API", "准入 API"),
		Meaning: setting.Doc(
			"Where callers that send requests to the targets themselves ask which one they may use, and when",
			"自行向各目标发送请求的调用方在此询问可以使用哪个目标、何时使用",
		),
	}
}
