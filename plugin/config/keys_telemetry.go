package config

import "github.com/warmgate/warmgate/lb/setting"

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
	{Key: setting.Key{
		Name: "lb_config.telemetry.log", Type: setting.Choice, Default: `"line"`, Choices: logNames,
		Title: setting.Doc("Access log", "访问日志"),
		Meaning: setting.Doc(
			"What of a request is put beside the decision for the gateway's [access log](metrics.md#access-log) when "+
				"it is over: `line`: the rest of the line; `fields`: members of an object; `both`; `decision`: nothing",
			"请求结束时，除决策之外还为网关的[访问日志](metrics_ZH.md#访问日志)提供请求的哪些信息：`line`：该行的其余部分；"+
				"`fields`：对象的各个成员；`both`：两者都提供；`decision`：不提供",
		),
		Field: func(s any) any { return &s.(*Config).Telemetry.Log },
	}},
	{Key: setting.Key{
		Name: "lb_config.telemetry.spans", Type: setting.Boolean, Default: "false",
		Title: setting.Doc("Spans", "Span 属性"),
		Meaning: setting.Doc(
			"Show the gateway's tracer what is known of a request, for attributes of its span: "+
				"see [tracing](tracing.md)",
			"将请求的已知信息提供给网关的链路追踪，作为其 span 的属性：见[链路追踪](tracing_ZH.md)",
		),
		Field: func(s any) any { return &s.(*Config).Telemetry.Spans },
	}},
}

// telemetrySection describes the section of these keys.
func telemetrySection() setting.Section {
	return setting.Section{
		Name:  "lb_config.telemetry",
		Title: setting.Doc("Telemetry", "遥测"),
		Meaning: setting.Doc(
			"What is measured of requests, for statistics, the access log and spans",
			"测量请求的哪些内容，用于统计、访问日志与 span",
		),
	}
}
