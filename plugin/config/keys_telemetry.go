package config

import "github.com/warmgate/warmgate/lb/setting"

// Telemetry is what is measured of requests, for statistics and the access log.
type Telemetry struct {
	Enabled     bool // else statistics have no requests
	ReadAnswers bool // of all answers, for their tokens; else only where a policy needs them
}

// telemetryKeys are the keys of what is measured of requests.
var telemetryKeys = []key{
	{Key: setting.Key{
		Name: keyTelemetry, Type: setting.Boolean, Default: "true",
		Title: setting.Doc("Measure requests", "测量请求"),
		Meaning: setting.Doc(
			"Count each request that is over, with its outcome, times, tokens and costs, in statistics; `false`: no "+
				"request is measured, and the access log has what the policy needs",
			"将每个结束的请求连同其结果、耗时、token 与费用计入统计；`false`：不测量请求，访问日志中只有策略所需的内容",
		),
		Field: func(s any) any { return &s.(*Config).Telemetry.Enabled },
	}},
	{Key: setting.Key{
		Name: keyReadAnswers, Type: setting.Boolean, Default: "true",
		Title: setting.Doc("Read answers", "读取应答"),
		Meaning: setting.Doc(
			"Read answers to their end, for `usage`, the tokens of a stream without it, and the times between them; "+
				"`false`: only where the policy needs `usage`, at less cost for each part of a stream. Then tokens "+
				"are estimated by the number of parts, and a stream lasts to its end, not to its latest output",
			"将应答读取到末尾，以获得 `usage`、没有 usage 的流的 token 数及其间隔；`false`：仅在策略需要 `usage` 时读取，"+
				"流的每个分片开销更低。此时 token 数按分片数估计，流的时长算到其结束，而非最后一次输出",
		),
		Field: func(s any) any { return &s.(*Config).Telemetry.ReadAnswers },
	}},
}

// telemetrySection describes the section of these keys.
func telemetrySection() setting.Section {
	return setting.Section{
		Name:  "lb_config.telemetry",
		Title: setting.Doc("Telemetry", "遥测"),
		Meaning: setting.Doc(
			"What is measured of requests, for statistics and the access log",
			"为统计和访问日志测量请求的哪些内容",
		),
	}
}
