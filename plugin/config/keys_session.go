package config

import (
	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/lb/setting"
)

// sessionKeys returns the keys of how sessions are told apart, for policies that use them.
func sessionKeys() []key {
	all := usersOf(func(n *policy.Needs) bool { return n.Session != policy.NoSession })
	required := usersOf(func(n *policy.Needs) bool { return n.Session == policy.SessionRequired })
	return append(usedBy([]key{{
		Key: setting.Key{
			Name: keySession, Type: setting.Array, Entry: "string",
			Default: `["header:x-session-id", "body:session_id", "body:prompt_cache_key", "body:user", ` +
				`"body:safety_identifier", "body:metadata.user_id"]`,
			Title: setting.Doc("Session key", "会话键"),
			Meaning: setting.Doc(
				"Where the key of a request's session is: the first of these that it has. `header:NAME`, "+
					"`cookie:NAME`, `query:NAME`, `body:NAME` for a text or a number in the JSON body, with dots as "+
					"in `body:metadata.user_id`, or `client_address`",
				"请求的会话键取自何处，取列表中第一个存在的：`header:NAME`、`cookie:NAME`、`query:NAME`、`body:NAME`（JSON "+
					"请求体中的字符串或数字，可用点号，如 `body:metadata.user_id`），或 `client_address`（客户端地址）",
			),
		},
		set: sources(func(c *Config) *[]Source { return &c.Session }),
	}}, all), usedBy([]key{{
		Key: setting.Key{
			Name: keyHashHeader, Type: setting.Text, Loose: true,
			Title: setting.Doc("Session header (Higress's name)", "会话请求头（Higress 的名称）"),
			Meaning: setting.Doc(
				"Higress: the same as `session.key` with this one header, proposed there",
				"Higress：等同于只含此请求头的 `session.key`（Higress 的提案）",
			),
			Field: func(s any) any { return &s.(*Config).hashHeader },
		},
	}}, required)...)
}

// sessionSection describes the section of these keys.
func sessionSection() setting.Section {
	return setting.Section{
		Name:  "lb_config.session",
		Title: setting.Doc("Sessions", "会话"),
		Meaning: setting.Doc(
			"How requests of one session are recognized, and how many of them may be at one endpoint",
			"如何识别同一会话的请求，以及同一端点最多承担多少",
		),
	}
}
