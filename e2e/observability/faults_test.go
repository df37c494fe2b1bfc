package observability

// slowForAnHour is how long a server has decoded that takes three times as long for it.
const slowForAnHour = "0+300000x19 6000000+900000x60 60900000+300000x40"

// faults has a fault for each alert. An empty value takes a series of a calm gateway away.
var faults = []fault{
	{
		alert: "WarmgateAbsent", labels: "",
		wrong: series{`warmgate_config_valid{` + gateway + `}`: "1x19 _x60 1x40"},
	},
	{
		alert: "WarmgateGone", labels: gateway,
		wrong: series{`warmgate_owners{` + gateway + `}`: during(0, 2)},
	},
	{
		alert: "WarmgateConfigurationInvalid", labels: gateway,
		wrong: series{`warmgate_config_valid{` + gateway + `}`: during(0, 1)},
	},
	{
		alert: "WarmgateConfigurationRefused", labels: gateway,
		wrong: series{`warmgate_config_rejected_total{` + gateway + `}`: flow(1)},
	},
	{
		alert: "WarmgateRulesRefused", labels: gateway,
		wrong: series{`warmgate_config_refused_rules{` + gateway + `}`: during(1, 0)},
	},
	{
		alert: "WarmgatePanic", labels: gateway,
		wrong: series{`warmgate_recovered_panics_total{` + gateway + `}`: "0x69 1x50"},
	},
	{
		alert: "WarmgateStoreCorrected", labels: gateway,
		wrong: series{`warmgate_store_corrected_total{` + gateway + `}`: "0x69 1x50"},
	},
	{
		alert: "WarmgateBalancedNatively", labels: `reason="no_endpoints"`,
		wrong: series{`warmgate_decisions_total{policy="prefix_cache",reason="no_endpoints",` + gateway + `}`: flow(200)},
	},
	{
		alert: "WarmgateRequestsStray", labels: gateway,
		wrong: series{`warmgate_lease_strays_total{` + gateway + `}`: flow(10)},
	},
	{
		alert: "WarmgateLabelsFolded", labels: `kind="model"`,
		wrong: series{`warmgate_folded_requests_total{kind="model",` + gateway + `}`: flow(300)},
	},
	{
		alert: "WarmgateRedisDown", labels: gateway,
		wrong: series{
			`warmgate_redis_up{` + gateway + `}`:                                 during(0, 1),
			`warmgate_redis_failures_total{cause="unreachable",` + gateway + `}`: flow(120),
		},
	},
	{
		alert: "WarmgateRedisLogin", labels: `cause="auth",` + gateway,
		wrong: series{`warmgate_redis_failures_total{cause="auth",` + gateway + `}`: flow(120)},
	},
	{
		alert: "WarmgateRedisFallbacks", labels: `cause="timeout"`,
		wrong: series{`warmgate_store_fallbacks_total{cause="timeout",` + gateway + `}`: flow(60)},
	},
	{
		alert: "WarmgateScrapesFail", labels: `result="status",` + gateway,
		wrong: series{`warmgate_metrics_scrapes_total{result="status",` + gateway + `}`: flow(7)},
	},
	{
		alert: "WarmgateNoMetrics", labels: gateway,
		wrong: series{`warmgate_decisions_total{policy="endpoint_metrics",reason="no_metrics",` + gateway + `}`: flow(20)},
	},
	{
		alert: "WarmgateMetricsLost", labels: `cluster="llm",` + gateway,
		wrong: series{`warmgate_metrics_fresh_endpoints{cluster="llm",` + gateway + `}`: during(0, 2)},
	},
	{
		alert: "WarmgateMetricsLacking", labels: `cluster="llm",` + gateway,
		wrong: series{`warmgate_metrics_lacking_endpoints{cluster="llm",` + gateway + `}`: during(1, 0)},
	},
	{
		alert: "WarmgateModelListsFail", labels: `result="status",` + gateway,
		wrong: series{`warmgate_model_lists_total{result="status",` + gateway + `}`: flow(4)},
	},
	{
		alert: "WarmgateModelNotEverywhere", labels: `cluster="llm",model="adapter"`,
		wrong: series{`warmgate_model_lacking_endpoints{cluster="llm",model="adapter",` + gateway + `}`: during(2, 0)},
	},
	{
		alert: "WarmgateServerUnhealthy", labels: `cluster="llm",envoy_cluster_name="llm",` + gateway,
		wrong: series{`envoy_cluster_membership_healthy{envoy_cluster_name="llm",` + gateway + `}`: during(1, 2)},
	},
	{
		alert: "WarmgateServerEjected", labels: `cluster="llm",` + gateway,
		wrong: series{`warmgate_ejected_endpoints{cluster="llm",` + gateway + `}`: during(1, 0)},
	},
	{
		alert: "WarmgateServerFails", labels: `cluster="llm",endpoint="1"`,
		wrong: series{ofServer("warmgate_endpoint_requests_total", "1", `,outcome="server_failed"`): flow(60)},
	},
	{
		alert: "WarmgateNoServer", labels: `reason="no_healthy_endpoint",` + gateway,
		wrong: series{
			`warmgate_decisions_total{policy="prefix_cache",reason="no_healthy_endpoint",` + gateway + `}`: flow(600),
		},
		also: []string{"WarmgateBalancedNatively"},
	},
	{
		alert: "WarmgateRequestsFail", labels: `cluster="llm"`,
		wrong: series{requests("m", "server_failed"): flow(60)},
	},
	{
		alert: "WarmgateAnswersFail", labels: `cluster="llm",endpoint="1",reason="empty"`,
		wrong: series{ofServer("warmgate_failed_answers_total", "1", `,reason="empty"`): flow(2)},
	},
	{
		alert: "WarmgateServerSlowToWrite", labels: `cluster="llm",endpoint="1"`,
		wrong: series{
			ofServer("warmgate_endpoint_decode_ms_total", "1", ""): slowForAnHour,
		},
	},
	{
		alert: "WarmgateServerSlowed", labels: `cluster="llm",endpoint="1"`, past: true,
		wrong: series{ // two of three
			ofServer("warmgate_endpoint_decode_ms_total", "1", ""):      slowForAnHour,
			ofServer("warmgate_endpoint_decode_ms_total", "2", ""):      slowForAnHour,
			ofServer("warmgate_endpoint_decode_ms_total", "3", ""):      "0+300000x120",
			ofServer("warmgate_endpoint_decoded_tokens_total", "3", ""): "0+30000x120",
		},
		with: []string{`cluster="llm",endpoint="2"`},
	},
	{
		alert: "WarmgateServerSlowToStart", labels: `cluster="llm",endpoint="1"`,
		wrong: series{
			ofServer("warmgate_endpoint_prefill_ms_total", "1", ""): "0+90000x19 1800000+360000x60 23760000+90000x40",
		},
	},
	{
		alert: "WarmgateFirstTokenSlow", labels: `cluster="llm"`,
		wrong: series{
			`warmgate_ttft_ms_bucket{cluster="llm",model="m",le="1000",` + gateway + `}`: "0+600x19 12000+500x60 42500+600x40",
		},
	},
	{
		alert: "WarmgateClusterFails", labels: `cluster="llm"`,
		wrong: series{`warmgate_cluster_requests_total{cluster="llm",result="failed",` + gateway + `}`: flow(60)},
	},
	{
		alert: "WarmgateCacheLost", labels: `cluster="llm"`,
		wrong: series{`warmgate_prefix_losses_total{cluster="llm",` + gateway + `}`: "_x69 2x50"},
	},
	{
		alert: "WarmgateCacheExpectedInVain", labels: gateway, // nothing is cached: there is no such series
		wrong: series{
			`warmgate_expected_cached_tokens_total{` + gateway + `}`: "0+1000x19 20000+150000x60 9021000+1000x40",
			`warmgate_tokens_total{cluster="llm",policy="prefix_cache",model="m",kind="cached",usage="reported",` +
				gateway + `}`: "",
		},
	},
	{
		alert: "WarmgateCacheExpectedInVain", labels: gateway,
		wrong: series{`warmgate_expected_cached_tokens_total{` + gateway + `}`: "0+60000x19 1200000+150000x60 10350000+60000x40"},
	},
	{
		alert: "WarmgateMatchError", labels: `api="chat",model="m",` + gateway,
		wrong: series{`warmgate_match_error_percent{api="chat",model="m",` + gateway + `}`: during(40, 3)},
	},
	{
		alert: "WarmgateRefusals", labels: "",
		wrong: series{
			`warmgate_decisions_total{policy="prefix_cache",reason="queue_timeout",` + gateway + `}`:            flow(60),
			`warmgate_queue_refusals_total{cluster="llm",class="batch",reason="queue_timeout",` + gateway + `}`: flow(60),
		},
	},
	{
		alert: "WarmgateQueueMissized", labels: `cluster="llm"`,
		wrong: series{
			`warmgate_queue_refusals_total{cluster="llm",class="batch",reason="max_queue_size_exceeded",` +
				gateway + `}`: flow(12),
			ofServer("warmgate_inflight_requests", "2", ""): during(0, 5),
		},
	},
	{
		alert: "WarmgateQueueLeft", labels: `cluster="llm"`,
		wrong: series{`warmgate_queue_left_total{cluster="llm",class="batch",` + gateway + `}`: flow(60)},
	},
	{
		alert: "WarmgateBackpressure", labels: `cluster="llm",` + gateway,
		wrong: series{`warmgate_backpressure_percent{cluster="llm",` + gateway + `}`: during(40, 0)},
	},
	{
		alert: "WarmgateTenantTakesMost", labels: `currency="EUR",tenant="a"`,
		wrong: series{
			`warmgate_cost_nano_total{model="m",tenant="a",currency="EUR",` + gateway + `}`: "0+900x19 18000+3000x60 201000+900x40",
		},
	},
	{
		alert: "WarmgateTenantFlood", labels: "",
		wrong: series{
			`warmgate_decisions_total{policy="token_budget",reason="tenant_over_budget",` + gateway + `}`: flow(200),
			`warmgate_budget_refusals_total{cluster="llm",reason="tenant_over_budget",` + gateway + `}`:   flow(200),
		},
		also: []string{"WarmgateRefusals"},
	},
	{
		alert: "WarmgateBudgetUsedUp", labels: `cluster="llm"`,
		wrong: series{`warmgate_budget_refusals_total{cluster="llm",reason="over_budget",` + gateway + `}`: flow(12)},
	},
	{
		alert: "WarmgateRegionUnreachable", labels: `region="eu",` + gateway,
		wrong: series{`warmgate_region_available{region="eu",` + gateway + `}`: during(0, 1)},
	},
	{
		alert: "WarmgateRegionAdopted", labels: `region="eu",` + gateway,
		wrong: series{`warmgate_region_adopted{region="eu",` + gateway + `}`: during(1, 0)},
	},
}
