package config

import (
	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/lb/setting"
)

// inspectKeys are the keys of what the gateway shows of itself.
var inspectKeys = []key{
	{
		Key: setting.Key{
			Name: keyInspectPath, Type: setting.Text, Max: maxAPIPath,
			Title: setting.Doc("Path", "路径"),
			Meaning: setting.Doc(
				"Where the gateway shows what it knows, such as `/warmgate/inspect`, for `warmgate top`, `ui`, "+
					"`snapshot` and `explain`; no request to this path, or below it, is forwarded, on any route. "+
					"Default: nowhere",
				"网关在此路径（如 `/warmgate/inspect`）展示其所知的状态，供 `warmgate top`、`ui`、`snapshot` 与 `explain` 使用；"+
					"任何路由上发往该路径及其下级路径的请求都不会被转发。默认：不展示",
			),
			Field: func(s any) any { return &s.(*Config).Inspect.Path },
		},
		set: setAPIPath(func(c *Config) *string { return &c.Inspect.Path }),
	},
	{
		Key: setting.Key{
			Name: keyInspectToken, Type: setting.Secret,
			Title: setting.Doc("Token", "令牌"),
			Meaning: setting.Doc(
				"With `path` required: who looks sends it as `authorization: Bearer …`; 16 bytes or more, "+
					"never written to a log",
				"设置 `path` 时必填：查看者以 `authorization: Bearer …` 发送该令牌；至少 16 字节，不会写入任何日志",
			),
			Field: func(s any) any { return (*string)(&s.(*Config).Inspect.Token) },
		},
		set: setAPIToken(func(c *Config) *policy.Secret { return &c.Inspect.Token }),
	},
}

// inspectSection describes the section of these keys.
func inspectSection() setting.Section {
	return setting.Section{
		Name:  "lb_config.inspect",
		Title: setting.Doc("Look inside", "状态查看"),
		Meaning: setting.Doc(
			"Where the gateway shows, to those with the token, what it knows of endpoints and what it decides: "+
				"nothing of what requests contain",
			"网关在何处向持有令牌者展示其所知的端点状态与决策；不展示请求的任何内容",
		),
	}
}
