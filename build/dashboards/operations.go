package main

// operations is for who is called when something is wrong.
func operations() *board {
	return &board{
		name:  "operations",
		title: "Warmgate: operations",
		about: "What is wrong now, and what to do; below, what led to it.",
		vars:  []string{"cluster", "model"},
		rows:  []row{wrong(), decidedRow, serversRow, waitingRow, countedRow, readRow},
	}
}

var decidedRow = row{"Decisions", []panel{
	{
		title: "Decisions by reason", unit: "reqps",
		ask:     "Where do requests go, and why?",
		normal:  "Almost all are chosen.",
		act:     "Look the most frequent other reason up.",
		page:    "docs/metrics-reference.md#reasons",
		queries: []query{{perSecond("warmgate_decisions_total", "", "reason"), "{{reason}}"}},
	},
	{
		title: "Decisions by policy", unit: "reqps",
		ask:     "Which policies decide?",
		normal:  "Those that are configured. none: no configuration applied.",
		act:     "An unexpected one: the rule for these requests is another than you think.",
		page:    "docs/troubleshooting.md#a-new-configuration-has-no-effect",
		queries: []query{{perSecond("warmgate_decisions_total", "", "policy"), "{{policy}}"}},
	},
	{
		title: "Requests by outcome", unit: "reqps",
		ask:    "What became of requests?",
		normal: "Almost all are ok.",
		act: "server_failed: the next row says which server. refused: the row of the queue. timeout: " +
			"routes, or servers that hang.",
		page:    "docs/troubleshooting.md#a-server-fails",
		queries: []query{{perSecond("warmgate_requests_total", ofModel, "outcome"), "{{outcome}}"}},
	},
	{
		title: "Retries and moves", unit: "reqps", width: 12, needs: "a request was tried again or moved",
		ask:    "How often is a request tried again, or served elsewhere than where it was sent?",
		normal: "Near 0. Strays are 0.",
		act:    "With each request: a filter is missing that carries the choice. Now and then: servers that fail.",
		page:   "docs/troubleshooting.md#the-choice-is-not-followed",
		queries: []query{
			{perSecond("warmgate_request_retries_total", inCluster, "cluster"), "{{cluster}}: retries"},
			{perSecond("warmgate_lease_moves_total", "", ""), "moves"},
			{perSecond("warmgate_lease_strays_total", "", ""), "strays"},
		},
	},
	{
		title: "Counted under other", unit: "reqps", width: 12, needs: "there are more names than labels",
		ask: "How many requests have no label of their own for a model, a tenant or an endpoint, since " +
			"labels are bounded?",
		normal: "0.",
		act: "Made-up names do no harm. Real ones: fewer names, or exact ones in prices, which always get a " +
			"label.",
		page:    "docs/troubleshooting.md#labels-are-folded",
		queries: []query{{perSecond("warmgate_folded_requests_total", "", "kind"), "{{kind}}"}},
	},
}}

// inflight is how many requests each server has: every gateway counts its own.
const inflight = "sum by (" + server + ") (warmgate_inflight_requests{" + inCluster + "})"

var serversRow = row{"Servers", []panel{
	{
		title: "In flight", unit: "short",
		ask:     "How many requests does each server have, from all gateways that are scraped?",
		normal:  "Alike, for servers of the same speed.",
		act:     "One that has far more hangs or is slow; one that has none is out.",
		page:    "docs/troubleshooting.md#uneven-load",
		queries: []query{{inflight, "{{endpoint}}"}},
	},
	{
		title: "Imbalance", unit: "short",
		ask:     "How many times the mean has the server that has most?",
		normal:  "Below 1.5 under load. With few requests it means nothing.",
		act:     "Sessions, cached prompts and unequal servers are meant to do that, up to a limit.",
		page:    "docs/troubleshooting.md#uneven-load",
		queries: []query{{share("max by (cluster) ("+inflight+")", "avg by (cluster) ("+inflight+")"), "{{cluster}}"}},
	},
	{
		title: "Answers by server", unit: "reqps",
		ask:     "Which server serves how many requests?",
		normal:  "Alike, for servers of the same speed.",
		act:     "None at one of them: it is ejected, fails health checks, or lacks the model.",
		page:    "docs/troubleshooting.md#a-server-fails",
		queries: []query{{perSecond("warmgate_endpoint_requests_total", inCluster, server), "{{endpoint}}"}},
	},
	{
		title: "Failed by server", unit: "percentunit",
		ask:    "Which share of its requests does each server fail?",
		normal: "0.",
		act:    "Look at that server. It is ejected by itself if it goes on.",
		page:   "docs/troubleshooting.md#a-server-fails",
		queries: []query{{share(
			perSecond("warmgate_endpoint_requests_total", inCluster+`, outcome="server_failed"`, server),
			perSecond("warmgate_endpoint_requests_total", inCluster, server)), "{{endpoint}}"}},
		needs: "a request was failed",
	},
	{
		title: "Time to first token by server, mean", unit: "ms",
		ask:    "How long does each server take until a stream shows its first token?",
		normal: "Alike, but servers with more cached prompts are faster.",
		act:    "One that stands out: is it slow, or are its prompts longer? Compare the time per token.",
		page:   "docs/troubleshooting.md#a-server-is-slow",
		queries: []query{{share(
			perSecond("warmgate_endpoint_prefill_ms_total", inCluster, server),
			perSecond("warmgate_endpoint_streams_total", inCluster, server)), "{{endpoint}}"}},
	},
	{
		title: "Time per output token by server, mean", unit: "ms",
		ask:    "How fast does each server decode?",
		normal: "Alike, for servers of the same hardware and load.",
		act:    "One that stands out is slow: its GPU is throttled or shared, or it has other settings.",
		page:   "docs/troubleshooting.md#a-server-is-slow",
		queries: []query{{share(
			perSecond("warmgate_endpoint_decode_ms_total", inCluster, server),
			perSecond("warmgate_endpoint_decoded_tokens_total", inCluster, server)), "{{endpoint}}"}},
	},
	{
		title: "Ejected", unit: "short", width: 12, needs: "a server was ejected",
		ask:    "How many servers are ejected for failing?",
		normal: "0.",
		act:    "The gateway's log names them, in lines with is ejected for.",
		page:   "docs/troubleshooting.md#a-server-fails",
		queries: []query{
			{"max by (cluster) (warmgate_ejected_endpoints{" + inCluster + "})", "{{cluster}}"},
		},
	},
	{
		title: "Answers that are none", unit: "reqps", width: 12, needs: "a server has answered 200 and failed",
		ask:    "Which servers answer 200 with an error, or break off?",
		normal: "0.",
		act:    "refused is the client's fault; all others are the server's.",
		page:   "docs/metrics-reference.md#failed-answers",
		queries: []query{
			{perSecond("warmgate_failed_answers_total", inCluster, "endpoint, reason"), "{{endpoint}}: {{reason}}"},
		},
	},
}}

const queue, refusing = "a queue is configured", "a request was refused"

var waitingRow = row{"Queue", []panel{
	{
		title: "Waiting", unit: "short", needs: queue,
		ask: "How many requests wait? With Redis every gateway says the same; without, each has a queue of its " +
			"own, and it is the sum.",
		normal: "0, and in bursts as many as are served within max_wait.",
		act:    "Always some: servers are too few, or their caps too low.",
		page:   "docs/troubleshooting.md#the-queue-has-the-wrong-size",
		queries: []query{
			{"(max by (cluster, class) (warmgate_queue_length{" + inCluster +
				"}) and on () warmgate_redis_up == 1) or " +
				"sum by (cluster, class) (warmgate_queue_length{" + inCluster + "})", "{{cluster}} {{class}}"},
		},
	},
	{
		title: "Wait", unit: "ms", needs: "requests have waited",
		ask:    "How long do requests wait that are then placed?",
		normal: "Far below max_wait.",
		act:    "Close to max_wait: the next ones are refused.",
		page:   "docs/troubleshooting.md#the-queue-has-the-wrong-size",
		queries: []query{
			{quantile("0.5", "warmgate_queue_wait_ms", inCluster, "class"), "{{class}}: half of them"},
			{quantile("0.95", "warmgate_queue_wait_ms", inCluster, "class"), "{{class}}: 95 %"},
		},
	},
	{
		title: "Refused and left", unit: "reqps", needs: refusing,
		ask:    "Which requests are refused, and why? How many clients leave while they wait?",
		normal: "0.",
		act:    "By the reason: a longer queue helps only if max_wait leaves it the time to be served.",
		page:   "docs/troubleshooting.md#the-queue-has-the-wrong-size",
		queries: []query{
			{perSecond("warmgate_queue_refusals_total", inCluster, "class, reason"), "{{class}}: {{reason}}"},
			{perSecond("warmgate_queue_left_total", inCluster, "class"), "{{class}}: left"},
		},
	},
	{
		title: "Backpressure", unit: "percent", needs: queue,
		ask:     "How much should clients hold back?",
		normal:  "0.",
		act:     "Above 50 for long: add servers, or have clients ask for suggested parallelism.",
		page:    "docs/troubleshooting.md#the-queue-has-the-wrong-size",
		queries: []query{{"max by (cluster) (warmgate_backpressure_percent{" + inCluster + "})", "{{cluster}}"}},
	},
	{
		title: "In flight and suggested", unit: "short", needs: queue + ", and every server has a cap",
		ask:    "How many requests should clients have in flight, and how many have they?",
		normal: "In flight stays below.",
		act:    "Scale servers, or jobs, by the suggested number.",
		page:   "docs/troubleshooting.md#the-queue-has-the-wrong-size",
		queries: []query{
			{"max by (cluster) (warmgate_suggested_parallelism{" + inCluster + "})", "{{cluster}}: suggested"},
			{"sum by (cluster) (warmgate_inflight_requests{" + inCluster + "})", "{{cluster}}: in flight"},
		},
	},
	{
		title: "Push limits", unit: "short", needs: "push is pending",
		ask:    "How many requests is each server given before the rest waits in the gateway?",
		normal: "Alike, for servers of the same hardware.",
		act:    "One that stays low is slow, or lacks memory for caches.",
		page:   "docs/troubleshooting.md#a-server-is-slow",
		queries: []query{
			{"max by (cluster, endpoint) (warmgate_endpoint_push_limit{" + inCluster + "})", "{{endpoint}}"},
		},
	},
}}

const redis = "requests are counted in Redis"

var countedRow = row{"Counting", []panel{
	{
		title: "Redis answers", unit: "short", needs: redis,
		ask:     "Does Redis answer the heartbeats of each gateway?",
		normal:  "1.",
		act:     "0: the causes are beside.",
		page:    "docs/troubleshooting.md#redis-fails",
		queries: []query{{"min by (instance) (warmgate_redis_up)", "{{instance}}"}},
	},
	{
		title: "Redis fails", unit: "short", needs: "Redis has failed",
		ask:    "Why does Redis fail heartbeats, and which requests were counted without it?",
		normal: "0.",
		act:    "auth: the password. unreachable: the address, or the network. timeout: it is slow, or far away.",
		page:   "docs/troubleshooting.md#redis-fails",
		queries: []query{
			{perSecond("warmgate_redis_failures_total", "", "cause"), "heartbeats: {{cause}}"},
			{perSecond("warmgate_store_fallbacks_total", "", "cause"), "requests: {{cause}}"},
		},
	},
	{
		title: "Time to choose and count", unit: "µs",
		ask:    "How long does a request wait for its place to be chosen and counted?",
		normal: "Some microseconds in memory; with Redis a round trip, below 2 ms.",
		act: "Rising with Redis: it is busy, or the gateway is. Beyond reserve_timeout requests go on " +
			"without it.",
		page:    "docs/troubleshooting.md#redis-fails",
		queries: quantiles("warmgate_reserve_us", ""),
	},
	{
		title: "VMs", unit: "short",
		ask:    "How many VMs of workers count?",
		normal: "As many as each gateway has workers.",
		act:    "0 while requests come: all VMs are dead, the gateway needs a push or a restart.",
		page:   "docs/metrics-reference.md#when-the-vms-are-dead",
		queries: []query{
			{"max by (instance) (warmgate_owners)", "{{instance}}"},
		},
	},
	{
		title: "Lost owners and contention", unit: "short",
		ask:    "How often are leases of dead VMs returned, counts corrected, swaps tried again?",
		normal: "Corrections are 0. The others are now and then.",
		act:    "Any correction is a defect: please report it.",
		page:   "docs/troubleshooting.md#a-defect",
		queries: []query{
			{perSecond("warmgate_owners_returned_total", "", ""), "owners returned"},
			{perSecond("warmgate_store_corrected_total", "", ""), "corrected"},
			{perSecond("warmgate_store_retries_total", "", ""), "swaps again"},
		},
	},
	{
		title: "Configuration and version", unit: "short",
		ask:    "Which configuration and which version are in force?",
		normal: "Valid, nothing refused, one version.",
		act:    "Two versions for long: a gateway was not restarted, or an upgrade was refused.",
		page:   "docs/troubleshooting.md#a-new-configuration-has-no-effect",
		queries: []query{
			{"min by (instance) (warmgate_config_valid)", "{{instance}}: valid"},
			{"max by (instance) (warmgate_config_refused_rules)", "{{instance}}: rules refused"},
			{"count by (version, revision) (warmgate_build_info == 1)", "{{version}} {{revision}}"},
			{"count by (policy) (warmgate_policy_info == 1)", "policy {{policy}}"},
		},
	},
}}

var readRow = row{"What is read", []panel{
	{
		title: "Scrapes", unit: "cps", needs: "a policy reads metrics of engines",
		ask:     "Are metrics of engines read?",
		normal:  "All are ok.",
		act:     "The result says what is wrong, and the gateway's log at which server.",
		page:    "docs/troubleshooting.md#engine-metrics-fail",
		queries: []query{{perSecond("warmgate_metrics_scrapes_total", "", "result"), "{{result}}"}},
	},
	{
		title: "Servers with fresh metrics", unit: "short", needs: "a policy reads metrics of engines",
		ask:    "How many servers have metrics that can be used, and how many of them lack one?",
		normal: "All servers are fresh, none lacks one.",
		act:    "Fewer: scrapes fail, or a page stands still.",
		page:   "docs/troubleshooting.md#engine-metrics-fail",
		queries: []query{
			{"min by (cluster) (warmgate_metrics_fresh_endpoints{" + inCluster + "})", "{{cluster}}: fresh"},
			{"max by (cluster) (warmgate_metrics_lacking_endpoints{" + inCluster + "})", "{{cluster}}: lacking"},
		},
	},
	{
		title: "Answers without usage", unit: "reqps", needs: "an answer was compressed",
		ask:     "How many answers are compressed, so that their usage is not read?",
		normal:  "0.",
		act:     "Have servers, or the gateway's compressor, leave answers as they are.",
		page:    "docs/metrics-reference.md#compressed-answers",
		queries: []query{{perSecond("warmgate_usage_encoded_total", "", ""), "compressed"}},
	},
	{
		title: "Lists of models", unit: "cps", width: 12, needs: "models.cluster is configured",
		ask:     "Do servers say which models they have?",
		normal:  "All are ok.",
		act:     "Another result: the path, a key, or the server.",
		page:    "docs/troubleshooting.md#a-model-is-not-on-all-servers",
		queries: []query{{perSecond("warmgate_model_lists_total", "", "result"), "{{result}}"}},
	},
	{
		title: "Calls of the API", unit: "reqps", width: 12, needs: "the admission API is used",
		ask:     "How is the admission API used, and what is answered?",
		normal:  "What ends in admitted, completed, renewed or ok.",
		act:     "unauthorized: a wrong key. unavailable: the store does not answer.",
		page:    "docs/admission.md",
		queries: []query{{perSecond("warmgate_api_calls_total", "", "result"), "{{result}}"}},
	},
}}
