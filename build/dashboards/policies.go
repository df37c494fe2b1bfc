package main

// of is the labels of what one policy decides.
func of(policy string) string { return ofModel + `, policy="` + policy + `"` }

// tuning is what every policy's dashboard begins with.
func tuning(policy string) row {
	return row{"What users get by it", []panel{
		{
			title: "Decisions by reason", unit: "reqps",
			ask:    "Which requests does this policy decide, and how?",
			normal: "Almost all are chosen.",
			act:    "Look the most frequent other reason up.",
			page:   "docs/metrics-reference.md#reasons",
			queries: []query{
				{perSecond("warmgate_decisions_total", `policy="`+policy+`"`, "reason"), "{{reason}}"},
			},
		},
		{
			title: "Time to first token", unit: "ms",
			ask:     "How long do users wait for the first token of a stream?",
			normal:  "What you have promised to users.",
			act:     "Compare it before and after each change of the configuration.",
			page:    "docs/troubleshooting.md#answers-are-slow",
			queries: quantiles("warmgate_ttft_ms", of(policy)),
		},
		{
			title: "Time per output token", unit: "µs",
			ask:     "How fast do answers come once they have begun?",
			normal:  "Below 50 ms.",
			act:     "Compare it before and after each change of the configuration.",
			page:    "docs/troubleshooting.md#answers-are-slow",
			queries: quantiles("warmgate_time_per_output_token_us", of(policy)),
		},
	}}
}

func prefixCache() *board {
	return &board{
		name: "prefix-cache", title: "Warmgate: prefix_cache",
		about: "How well prompts are sent where they are cached.",
		vars:  []string{"cluster", "model"},
		rows:  []row{tuning("prefix_cache"), cachedRow, savedRow},
	}
}

const (
	caching = "prefix_cache is in force, and servers report cached tokens"
	prompts = `policy="prefix_cache", kind=~"input|cached", usage="reported"`
	hits    = `policy="prefix_cache", kind="cached", usage="reported"`
)

var cachedRow = row{"Caches", []panel{
	{
		title: "Cached share, reported and expected", unit: "percentunit", needs: caching,
		ask:    "Which share of prompts had servers cached, and which did the gateway expect?",
		normal: "Both alike, and as high as the traffic allows.",
		act: "Expected far above: servers have restarted, or do not report. Both low: prompts differ early, " +
			"or the index is small.",
		page: "docs/troubleshooting.md#few-prompts-are-found-in-caches",
		queries: []query{
			{
				share(perSecond("warmgate_tokens_total", hits, ""), perSecond("warmgate_tokens_total", prompts, "")),
				"reported",
			},
			{share(perSecond("warmgate_expected_cached_tokens_total", "", ""),
				perSecond("warmgate_tokens_total", prompts, "")), "expected"},
		},
	},
	{
		title: "Error of expectations", unit: "percent", needs: caching,
		ask:     "By how many percentage points do expectations miss what is reported, for each API and model?",
		normal:  "Below 10.",
		act:     "Above for long: a client or a chat template that prints other than is assumed.",
		page:    "docs/metrics-reference.md#when-expectations-are-wrong",
		queries: []query{{"max by (api, model) (warmgate_match_error_percent)", "{{model}} ({{api}})"}},
	},
	{
		title: "Retention", unit: "s", needs: "prefix_cache is in force",
		ask:     "For how long do servers keep prompts?",
		normal:  "Longer than users take to answer: minutes.",
		act:     "Low: caches are small for the traffic. More memory for them, or fewer requests at once.",
		page:    "docs/troubleshooting.md#a-cache-is-lost",
		queries: []query{{"min by (cluster) (warmgate_prefix_retention_seconds{" + inCluster + "})", "{{cluster}}"}},
	},
	{
		title: "Lost caches", unit: "short", needs: "prefix_cache is in force",
		ask:     "How many times did servers lose all that they had cached? Each worker may count it.",
		normal:  "0, but for restarts.",
		act:     "Again and again: servers restart, or somebody resets their caches.",
		page:    "docs/troubleshooting.md#a-cache-is-lost",
		queries: []query{{"sum by (cluster) (warmgate_prefix_losses_total{" + inCluster + "})", "{{cluster}}"}},
	},
	{
		title: "Room in the index", unit: "percent", needs: "prefix.cache_tokens is configured",
		ask:     "How much of what all caches can hold has the index room to describe?",
		normal:  "Above 100.",
		act:     "Raise prefix.table_bytes, or with Redis prefix.redis_bytes.",
		page:    "docs/troubleshooting.md#few-prompts-are-found-in-caches",
		queries: []query{{"min by (cluster) (warmgate_prefix_table_percent{" + inCluster + "})", "{{cluster}}"}},
	},
	{
		title: "Prompts not read", unit: "reqps", needs: "a long prompt was not read to its end",
		ask:     "Which prompts are matched with nothing, because their bodies were not read to the end?",
		normal:  "0.",
		act:     "too_long: raise max_scan_bytes. late: slow clients. no_room: many long bodies at once.",
		page:    "docs/sizing.md#how-much-of-a-longer-body-is-scanned",
		queries: []query{{perSecond("warmgate_prefix_unread_total", "", "cause"), "{{cause}}"}},
	},
}}

func endpointMetrics() *board {
	return &board{
		name: "endpoint-metrics", title: "Warmgate: endpoint_metrics",
		about: "How well servers' own metrics guide requests.",
		vars:  []string{"cluster", "model"},
		rows:  []row{tuning("endpoint_metrics"), readRow, evenness(), enginesRow},
	}
}

// enginesRow is what engines say themselves, in the names of vLLM.
var enginesRow = row{"What vLLM says itself", []panel{
	{
		title: "Running and waiting", unit: "short", needs: vllm,
		ask:    "How many requests do servers run, and how many wait there?",
		normal: "With push limits next to none wait in servers.",
		act:    "Many wait: have them wait in the gateway, which can still send them elsewhere.",
		page:   "docs/overload.md#when-is-a-server-full",
		queries: []query{
			{"vllm:num_requests_running", "{{instance}}: running"},
			{"vllm:num_requests_waiting", "{{instance}}: waiting"},
		},
	},
	{
		title: "KV cache in use", unit: "percentunit", needs: vllm,
		ask:     "How full are servers' caches?",
		normal:  "Below 0.9.",
		act:     "Full: servers preempt requests and compute prompts again. Lower their caps.",
		page:    "docs/troubleshooting.md#a-cache-is-lost",
		queries: []query{{"vllm:kv_cache_usage_perc", "{{instance}}"}},
	},
	{
		title: "Time to first token, in servers", unit: "s", needs: vllm,
		ask:    "How long do servers take by their own clock?",
		normal: "As long as the gateway sees.",
		act:    "Shorter than in the gateway: requests wait in its queue, or the network is slow.",
		page:   "docs/troubleshooting.md#answers-are-slow",
		queries: []query{
			{quantile("0.5", "vllm:time_to_first_token_seconds", "", ""), "half of them"},
			{quantile("0.95", "vllm:time_to_first_token_seconds", "", ""), "95 %"},
		},
	},
}}

const vllm = "Prometheus scrapes servers of vLLM, too"

func leastRequest() *board {
	return &board{
		name: "global-least-request", title: "Warmgate: global_least_request",
		about: "How evenly requests are spread.",
		vars:  []string{"cluster", "model"},
		rows:  []row{tuning("global_least_request"), evenness(), countedRow},
	}
}

// evenness is how load is spread over servers.
func evenness() row {
	r := row{"Load", nil}
	for _, p := range serversRow.panels {
		switch p.title {
		case "In flight", "Imbalance", "Answers by server":
			r.panels = append(r.panels, p)
		}
	}
	return row{r.title, append(r.panels, panel{
		title: "Tokens in flight", unit: "short", width: 24, needs: "unit is tokens",
		ask:     "How many tokens of work does each server have?",
		normal:  "Alike, for servers of the same speed, even where requests are not.",
		act:     "Uneven requests at even tokens are as they should be.",
		page:    "docs/troubleshooting.md#uneven-load",
		queries: []query{{"sum by (cluster, endpoint) (warmgate_inflight_tokens{" + inCluster + "})", "{{endpoint}}"}},
	})}
}

func consistentHash() *board {
	return &board{
		name: "consistent-hash", title: "Warmgate: consistent_hash",
		about: "How well sessions stay where they are.",
		vars:  []string{"cluster", "model"},
		rows:  []row{tuning("consistent_hash"), sessionsRow, evenness()},
	}
}

var sessionsRow = row{"Sessions", []panel{
	{
		title: "Sessions at home", unit: "reqps", width: 12, needs: "sessions matter",
		ask:    "Do requests of a session go to the server where it belongs?",
		normal: "Almost all are at home.",
		act: "displaced: homes carry too much, raise the bound or add servers. none: clients do not send " +
			"the key.",
		page: "docs/sessions.md",
		queries: []query{
			{perSecond("warmgate_session_requests_total", inCluster, "result"), "{{result}}"},
		},
	},
	{
		title: "Displaced share", unit: "percentunit", width: 12, needs: "sessions matter",
		ask:    "Which share of requests with a session is served elsewhere?",
		normal: "Below 5 %.",
		act:    "More: one session is larger than a server, or load is near the caps.",
		page:   "docs/sessions.md",
		queries: []query{{share(
			perSecond("warmgate_session_requests_total", inCluster+`, result="displaced"`, "cluster"),
			perSecond("warmgate_session_requests_total", inCluster+`, result!="none"`, "cluster")), "{{cluster}}"}},
	},
}}

func tokenBudget() *board {
	return &board{
		name: "token-budget", title: "Warmgate: token_budget",
		about: "Budgets of targets and tenants, and who uses them.",
		vars:  []string{"cluster", "model"},
		rows:  []row{tuning("token_budget"), budgetsRow},
	}
}

var budgetsRow = row{"Targets", []panel{
	{
		title: "Tokens charged", unit: "si:tok/s", needs: "token_budget is in force",
		ask:     "Which target is charged how much?",
		normal:  "In proportion to their rates.",
		act:     "A target without any is closed, or over its budget.",
		page:    "docs/troubleshooting.md#a-budget-is-used-up",
		queries: []query{{perSecond("warmgate_budget_tokens_total", inCluster, server), "{{endpoint}}"}},
	},
	{
		title: "Tokens left", unit: "short", needs: "token_budget is in force",
		ask:    "What is left of each target's tokens?",
		normal: "Above 0.",
		act:    "0 for long: raise the rates, or add targets.",
		page:   "docs/troubleshooting.md#a-budget-is-used-up",
		queries: []query{
			{"min by (cluster, endpoint) (warmgate_budget_left_tokens{" + inCluster + "})", "{{endpoint}}"},
		},
	},
	{
		title: "Requests left", unit: "short", needs: "token_budget is in force",
		ask:    "What is left of each target's requests?",
		normal: "Above 0.",
		act:    "0 while tokens are left: requests are short, raise max_requests_per_minute.",
		page:   "docs/troubleshooting.md#a-budget-is-used-up",
		queries: []query{
			{"min by (cluster, endpoint) (warmgate_budget_left_requests{" + inCluster + "})", "{{endpoint}}"},
		},
	},
	{
		title: "Closed", unit: "ms", needs: "token_budget is in force",
		ask:     "For how long does a target take nothing, by what its answers said?",
		normal:  "0.",
		act:     "Others use the same account, or its rate is lower than configured.",
		page:    "docs/troubleshooting.md#a-budget-is-used-up",
		queries: []query{{"max by (cluster, endpoint) (warmgate_budget_closed_ms{" + inCluster + "})", "{{endpoint}}"}},
	},
	{
		title: "Lowered by answers", unit: "cps", needs: "a target's answers have rate limits",
		ask:    "Which targets have less left than is configured, by their answers?",
		normal: "0.",
		act:    "Configure what the provider grants.",
		page:   "docs/troubleshooting.md#a-budget-is-used-up",
		queries: []query{
			{perSecond("warmgate_budget_restricted_total", inCluster, "endpoint, reason"), "{{endpoint}}: {{reason}}"},
		},
	},
	{
		title: "Refused", unit: "reqps", needs: "a request was refused",
		ask:    "Which requests are refused for want of budget?",
		normal: "0.",
		act:    "over_budget: all targets. tenant_over_budget: one tenant alone.",
		page:   "docs/troubleshooting.md#one-tenant-takes-most",
		queries: []query{
			{perSecond("warmgate_budget_refusals_total", inCluster, "cluster, reason"), "{{cluster}}: {{reason}}"},
		},
	},
}}
