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
				"With `path` required: who calls the API sends it as `authorization: Bearer …`; 16 bytes or more, "+
					"never written to a log",
				"设置 `path` 时必填：API 调用方以 `authorization: Bearer …` 发送该令牌；至少 16 字节，"+
					"不会写入任何日志",
			),
			Field: func(s any) any { return (*string)(&s.(*Config).API.Token) },
		},
		set: setAPIToken(func(c *Config) *policy.Secret { return &c.API.Token }),
	},
	{Key: setting.Key{
		Name: keyLeaseTTL, Type: setting.Duration, Min: setting.Second, Max: setting.Hour, Default: `"30s"`,
		Title: setting.Doc("Lease TTL", "租约时长"),
		Meaning: setting.Doc(
			"How long a task lives without a heartbeat; then it is abandoned, and what it was charged is given back",
			"任务没有心跳时保留多久；到期即视为放弃，已扣除的额度随之归还",
		),
		Field: func(s any) any { return &s.(*Config).API.LeaseTTL },
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
