package main

// overview is for who pays for the servers and who uses them.
func overview() *board {
	return &board{
		name:  "overview",
		title: "Warmgate: overview",
		about: "What users get, what it costs, and what balancing gains.",
		vars:  []string{"cluster", "model"},
		rows:  []row{nowRow, usersRow, tokensRow, worthRow},
	}
}

var nowRow = row{"Now", []panel{
	{
		title: "Requests per second", width: 6, kind: number, unit: "reqps",
		ask:     "How many requests end per second, whatever came of them?",
		normal:  "As your traffic is.",
		act:     "0 while clients send: the plugin is not loaded, or not scraped.",
		page:    "docs/troubleshooting.md#the-plugin-is-not-loaded",
		queries: []query{{perSecond("warmgate_requests_total", ofModel, ""), "requests"}},
	},
	{
		title: "Answered well", width: 6, kind: number, unit: "percentunit",
		ask: "Of the requests that the service is to answer, which share was answered well? Requests that " +
			"clients gave up, or that were wrong, are left out.",
		normal: "Above 99 %.",
		act:    "Look at the outcomes below, and at what is red in the dashboard of operations.",
		page:   "docs/troubleshooting.md#a-server-fails",
		queries: []query{{shareOrNone(
			perSecond("warmgate_requests_total", ofModel+`, outcome="ok"`, ""),
			perSecond("warmgate_requests_total", ofModel+`, outcome!~"client_.*"`, "")), "share"}},
	},
	{
		title: "Time to first token, 90 %", width: 6, kind: number, unit: "ms",
		ask:    "Within which time do nine of ten streams show their first token, from when the request arrived?",
		normal: "What you have promised to users. Without streams there is no data.",
		act: "Compare the wait in the queue with the prefill: the first asks for more servers, the second " +
			"for shorter or cached prompts.",
		page:    "docs/troubleshooting.md#answers-are-slow",
		queries: []query{{quantile("0.9", "warmgate_ttft_ms", ofModel, ""), "90 %"}},
	},
	{
		title: "Prompt tokens from caches", width: 6, kind: number, unit: "percentunit",
		ask:    "Which share of prompts had servers cached?",
		normal: "Depends on the traffic: chats and agents above 50 %, unrelated prompts near 0.",
		act:    "Low for conversations: choose prefix_cache, and look at its dashboard.",
		page:   "docs/troubleshooting.md#few-prompts-are-found-in-caches",
		queries: []query{{shareOrNone(
			perSecond("warmgate_tokens_total", ofModel+`, kind="cached"`, ""),
			perSecond("warmgate_tokens_total", ofModel+`, kind=~"input|cached"`, "")), "share"}},
	},
}}

var usersRow = row{"What users get", []panel{
	{
		title: "Requests by outcome", unit: "reqps",
		ask:    "What became of requests?",
		normal: "Almost all are ok. client_left are users who gave up, client_error wrong requests.",
		act: "server_failed: see which server in operations. refused: the queue or a budget. timeout: " +
			"routes, or servers that hang.",
		page:    "docs/troubleshooting.md#a-server-fails",
		queries: []query{{perSecond("warmgate_requests_total", ofModel, "outcome"), "{{outcome}}"}},
	},
	{
		title: "Requests by model", unit: "reqps",
		ask:     "Which models are used? Names beyond the bound are counted as other.",
		normal:  "As your traffic is.",
		act:     "Many under other: made-up names, or more models than have labels.",
		page:    "docs/troubleshooting.md#labels-are-folded",
		queries: []query{{perSecond("warmgate_requests_total", ofModel, "model"), "{{model}}"}},
	},
	{
		title: "Time to first token", unit: "ms",
		ask:     "How long do users wait for the first token of a stream, the queue included?",
		normal:  "Even. What is behind 99 % is mostly long prompts that no server had cached.",
		act:     "If all three rise, servers are full. If only 99 % does, look for one slow server.",
		page:    "docs/troubleshooting.md#answers-are-slow",
		queries: quantiles("warmgate_ttft_ms", ofModel),
	},
	{
		title: "Time to first token by model, 90 %", unit: "ms",
		ask:     "Which model keeps its users waiting?",
		normal:  "Larger models take longer.",
		act:     "One that rises alone lacks servers of its own, or an adapter is on few of them.",
		page:    "docs/troubleshooting.md#answers-are-slow",
		queries: []query{{quantile("0.9", "warmgate_ttft_ms", ofModel, "model"), "{{model}}"}},
	},
	{
		title: "Time per output token", unit: "µs",
		ask:    "How fast do answers come once they have begun?",
		normal: "Below 50 ms, which is faster than people read.",
		act: "If it rises with load, servers run too many requests at once: lower their caps, or have " +
			"requests wait in the queue.",
		page:    "docs/troubleshooting.md#answers-are-slow",
		queries: quantiles("warmgate_time_per_output_token_us", ofModel),
	},
	{
		title: "Longest pauses in streams", unit: "ms",
		ask:    "How long do streams pause? Of each stream it is the pause that 1 % of its pauses exceed.",
		normal: "A few times the time per token.",
		act: "Long pauses at an even time per token: prefills of others interrupt decoding. Chunked prefill " +
			"in the engine, or fewer long prompts at one server.",
		page:    "docs/troubleshooting.md#answers-are-slow",
		queries: quantiles("warmgate_token_gap_p99_ms", ofModel),
	},
	{
		title: "Duration of requests", unit: "ms",
		ask:    "How long do requests take, from arrival to the last byte?",
		normal: "As long as answers are.",
		act:    "Compare it with the length of answers before you look for a fault.",
		page:   "docs/troubleshooting.md#answers-are-slow",
		queries: append(quantiles("warmgate_request_duration_ms", ofModel+`, outcome="ok"`),
			query{quantile("0.9", "warmgate_decode_ms", ofModel, ""), "90 % of streams, from the first token on"}),
	},
	{
		title: "Length of prompts and answers, 90 %", unit: "short",
		ask:     "How many tokens do requests and answers have?",
		normal:  "As your traffic is.",
		act:     "A jump explains slower answers, and higher cost, without a fault.",
		page:    "docs/metrics.md#tokens-and-cost",
		queries: []query{{quantile("0.9", "warmgate_request_tokens", ofModel, "kind"), "{{kind}}"}},
	},
	{
		title: "Parts of the time to first token, mean", kind: stacked, unit: "ms",
		ask:    "Do users wait in the queue, or for the server?",
		normal: "For the server. The rest is the wait in the gateway: for the body, for the count, in the queue.",
		act:    "Mostly in the gateway: add servers. Mostly at the server: cache more, or shorten prompts.",
		page:   "docs/troubleshooting.md#answers-are-slow",
		queries: []query{
			{mean("warmgate_prefill_ms", ofModel), "server"},
			{mean("warmgate_ttft_ms", ofModel) + " - " + mean("warmgate_prefill_ms", ofModel), "gateway"},
		},
	},
}}

// mean is that of a histogram.
func mean(histogram, where string) string {
	return share(perSecond(histogram+"_sum", where, ""), perSecond(histogram+"_count", where, ""))
}

// hourly is what is spent in an hour, by a label.
func hourly(by string) string {
	return "3600e-9 * " + perSecond("warmgate_cost_nano_total", `model=~"$model"`, by+", currency")
}

const prices = "lb_config.prices is configured"

var tokensRow = row{"Tokens and cost", []panel{
	{
		title: "Tokens by kind", unit: "si:tok/s",
		ask: "Which tokens are handled? The four kinds have none in common: input was computed, cached was " +
			"found.",
		normal:  "As your traffic is.",
		act:     "No cached at all: servers do not report them, or caches are not used.",
		page:    "docs/metrics.md#tokens-and-cost",
		queries: []query{{perSecond("warmgate_tokens_total", ofModel, "kind"), "{{kind}}"}},
	},
	{
		title: "Tokens by model", unit: "si:tok/s",
		ask:     "Which models have how many tokens, of all kinds?",
		normal:  "As your traffic is.",
		act:     "Compare it with the cost by model.",
		page:    "docs/metrics.md#tokens-and-cost",
		queries: []query{{perSecond("warmgate_tokens_total", ofModel, "model"), "{{model}}"}},
	},
	{
		title: "Tokens that are estimated", unit: "percentunit", needs: "an answer had no usage",
		ask:    "Which share of tokens is counted by what went by, because no usage came?",
		normal: "A few percent: clients that left, streams that broke.",
		act:    "Much: clients do not ask for include_usage, the engine sends none, or answers are compressed.",
		page:   "docs/metrics-reference.md#compressed-answers",
		queries: []query{{share(
			perSecond("warmgate_tokens_total", ofModel+`, usage="estimated"`, "model"),
			perSecond("warmgate_tokens_total", ofModel, "model")), "{{model}}"}},
	},
	{
		title: "Cost by model, per hour", kind: stacked, unit: "none", needs: prices,
		ask:     "What do requests cost at the configured prices?",
		normal:  "As your traffic is.",
		act:     "Compare it with tokens by kind: cached ones may be cheaper.",
		page:    "docs/metrics.md#tokens-and-cost",
		queries: []query{{hourly("model"), "{{model}} {{currency}}"}},
	},
	{
		title: "Cost by tenant, per hour", unit: "none", needs: prices + ", and tenants are told apart",
		ask:     "Who causes the cost? Names beyond the bound are counted as other.",
		normal:  "As your contracts are.",
		act:     "One that rises suddenly: talk to the tenant, or give it a budget.",
		page:    "docs/troubleshooting.md#one-tenant-takes-most",
		queries: []query{{hourly("tenant"), "{{tenant}} {{currency}}"}},
	},
	{
		title: "Cost of a request, mean", unit: "none", needs: prices,
		ask:    "What does one request cost on average?",
		normal: "Even.",
		act:    "It rises with longer prompts and answers, and falls with more cached tokens.",
		page:   "docs/metrics.md#tokens-and-cost",
		queries: []query{{"1e-9 * " + perSecond("warmgate_cost_nano_total", "", "currency") +
			" / on () group_left () (" + perSecond("warmgate_requests_total", "", "") + " > 0)", "{{currency}}"}},
	},
}}
