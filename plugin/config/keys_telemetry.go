package config

import "github.com/warmgate/warmgate/lb/setting"

// telemetryKeys are the keys of what is told of requests, beside statistics.
var telemetryKeys = []key{
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
		Title: setting.Doc("Telemetry", "可观测性"),
		Meaning: setting.Doc(
			"What is told of requests, beside statistics",
			"除统计指标外，还提供请求的哪些信息",
		),
	}
}
