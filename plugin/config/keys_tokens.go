package config

import "github.com/warmgate/warmgate/lb/setting"

// tokenKeys are the keys of how bodies are read, and of how tokens are estimated from them.
var tokenKeys = []key{
	{Key: setting.Key{
		Name: "lb_config.max_inspect_bytes", Type: setting.Size, Min: 1 << 10, Max: 8 << 20, Default: "655360",
		Title: setting.Doc("Inspected bytes", "检查的字节数"),
		Meaning: setting.Doc(
			"How much of a request body is read for the decision: of its prompt, where the rest is scanned",
			"为决策读取请求体的最大字节数；扫描其余部分时，指提示词的字节数",
		),
		Field: func(s any) any { return &s.(*Config).MaxInspectBytes },
	}},
	{Key: setting.Key{
		Name: "lb_config.max_scan_bytes", Type: setting.Size, Min: 1 << 10, Max: 64 << 20, Default: "16777216",
		Title: setting.Doc("Scanned bytes", "扫描的字节数"),
		Meaning: setting.Doc(
			"How much of a longer body is scanned, wherever it decides, for its model, `cache_salt`, tools and other "+
				"members that stand behind the prompt. What is longer still matches no prompt",
			"请求体更长且影响决策时，为查找位于提示词之后的 model、`cache_salt`、tools 等成员而扫描的最大字节数；"+
				"更长的请求体不与任何提示词匹配",
		),
		Field: func(s any) any { return &s.(*Config).MaxScanBytes },
	}},
	{Key: setting.Key{
		Name: "lb_config.body_timeout", Type: setting.Duration,
		Min: 1, Max: setting.Minute, Default: `"250ms"`,
		Title: setting.Doc("Wait for the body", "等待请求体"),
		Meaning: setting.Doc(
			"How long a request waits for its body, or, where the end of that decides, for each next part of it, for "+
				"up to 1s and for 30s in all; then the part that has come decides, or else the headers",
			"等待请求体的最长时间；若请求体末尾影响决策，则为等待其每个后续部分的最长时间，"+
				"每次至多 1 秒，总计至多 30 秒；超时后依据已到达的部分决策；若尚未到达，则仅凭请求头",
		),
		Field: func(s any) any { return &s.(*Config).BodyTimeout },
	}},
	{Key: setting.Key{
		Name: "lb_config.output_tokens", Type: setting.Integer, Min: 0, Max: 1e6, Default: "256",
		Title: setting.Doc("Expected output", "预计输出"),
		Meaning: setting.Doc(
			"Tokens expected of an answer, and of a prompt that cannot be read, until usage in answers "+
				"shows them",
			"在应答中的 usage 给出实际数值之前，预期的输出 token 数，以及无法读取的提示词的 token 数",
		),
		Field: func(s any) any { return &s.(*Config).OutputTokens },
	}},
	{
		Key: setting.Key{
			Name: keyOutputFrom, Type: setting.Array, Entry: "string",
			Title: setting.Doc("Expected output, in requests", "请求中的预计输出"),
			Meaning: setting.Doc(
				"Where a request says how many tokens its answer is likely to have, in the form of `session.key`: "+
					"the first of these that it has, a whole number. It counts for twice the usual at most. "+
					"Default: nowhere",
				"请求在何处说明其应答预计有多少 token（整数），写法同 `session.key`，取列表中第一个存在的。"+
					"至多按通常的两倍计。默认：无",
			),
		},
		set: sources(func(c *Config) *[]Source { return &c.OutputFrom }),
	},
	{Key: setting.Key{
		Name: "lb_config.max_request_tokens", Type: setting.Integer, Min: 1, Max: 1 << 30, Default: "131072",
		Title: setting.Doc("Maximum tokens of a request", "单个请求的 token 上限"),
		Meaning: setting.Doc(
			"Maximum number of tokens that one request counts for, whatever limit it sets",
			"单个请求最多计入的 token 数，无论请求自己设的上限是多少",
		),
		Field: func(s any) any { return &s.(*Config).MaxRequestTokens },
	}},
	{Key: setting.Key{
		Name: "lb_config.bytes_per_token", Type: setting.Number, Min: 0.1, Max: 100, Default: "4",
		Title: setting.Doc("Bytes per token", "每 token 字节数"),
		Meaning: setting.Doc(
			"Bytes of prompt text that make one token, until usage in answers shows it",
			"在应答中的 usage 给出实际数值之前，提示词文本平均多少字节折合一个 token",
		),
		Field: func(s any) any { return &s.(*Config).BytesPerToken },
	}},
}
