package main

import (
	"fmt"
	"slices"
	"strings"
)

// Means of servers, by which they are compared with the others of their cluster.
func perToken(over string) string {
	return meanOf("warmgate_endpoint_decode_ms_total", "warmgate_endpoint_decoded_tokens_total", over)
}

func perStream(over string) string {
	return meanOf("warmgate_endpoint_prefill_ms_total", "warmgate_endpoint_streams_total", over)
}

// meanOf is a mean of each server, over a time in which servers have answered some streams.
func meanOf(total, number, over string) string {
	return "(" + share(recent(total, inCluster, server, over), recent(number, inCluster, server, over)) + ")"
}

// decided is the share of all decisions, from one in a hundred on.
func decided(counter, where, by string) string {
	return recent(counter, where, by, "2m") +
		" / on () group_left () (" + recent("warmgate_decisions_total", "", "", "2m") + " > 0) > 0.01"
}

// lasting is what a gauge has been for ten minutes.
func lasting(gauge, is string) string {
	return fmt.Sprintf("min_over_time(%s[10m]) %s and last_over_time(%s[2m] offset 10m) %s", gauge, is, gauge, is)
}

// timesPeers is a mean that is more than so many times as much as the others of the cluster have on average: of n
// servers, more than times / (n - 1 + times) of the sum.
func timesPeers(of string, times int) string {
	return fmt.Sprintf("%s > on (cluster) group_left () %d * sum by (cluster) (%s) / (count by (cluster) (%s) + %d)",
		of, times, of, of, times-1)
}

// enough is the time per token of servers that write more than a token a second.
func enough(over string) string {
	return recent("warmgate_endpoint_decode_ms_total", inCluster, server, over) + " / (" +
		recent("warmgate_endpoint_decoded_tokens_total", inCluster, server, over) + " > 1)"
}

// slowed are servers that take more than twice as long for a token as an hour or a day ago, whichever was less. Load
// that grows slows all of a cluster: so each is measured by the one that has slowed least. Servers that are unequal by
// design stay as unequal as they are.
func slowed() string {
	ago := func(ago string) string { return strings.ReplaceAll(enough("10m"), "[10m]", "[10m] offset "+ago) }
	times := fmt.Sprintf(`(%s / min by (%s) (%s or label_replace(%s, "ago", "day", "cluster", ".*")))`,
		enough("2m"), server, ago("1h"), ago("1d"))
	return fmt.Sprintf("%s > on (cluster) group_left () 2 * clamp_min(min by (cluster) (%s), 1)", times, times)
}

// sinceThen is the unit of tiles: minutes.
const sinceThen = "suffix:min ago"

// wrong is the first row of operations: each tile names what is wrong, and leads to what to do.
func wrong() row {
	r := row{"What is wrong now", slices.Concat(wrongPlugin, wrongServers, wrongRequests)}
	for i := range r.panels {
		r.panels[i].kind, r.panels[i].width, r.panels[i].unit = tile, 6, sinceThen
		r.panels[i].normal = "Green: " + r.panels[i].well + ". Red is what is so, or was in the last two minutes; " +
			"amber what is over, for a quarter of an hour. Without data the plugin is not loaded, or not scraped."
	}
	return r
}

// noRedis is the gateways whose heartbeats fail. The gauge stays 0 once a configuration is without Redis.
var noRedis = "max_over_time(warmgate_redis_up[1m]) == 0 and on (instance) " +
	rises("warmgate_redis_failures_total", "", "instance")

// unknown is that no gateway has been scraped for two minutes in which Prometheus did scrape.
const unknown = "absent_over_time(warmgate_config_valid[2m]) and on () group(last_over_time(up[2m]) and " +
	"last_over_time(up[2m] offset 2m))"

// notScraped are gateways that Prometheus should scrape, and could within a day.
const notScraped = "max_over_time(up[2m]) == 0 and on (job, instance) max_over_time(warmgate_config_valid[1d])"

// noMetrics are clusters whose servers' metrics are read, and are all too old. The gauge stays when a policy is in
// force that reads none.
var noMetrics = "max by (cluster) (" + latest("warmgate_metrics_fresh_endpoints", inCluster) + " == 0 and " +
	"max_over_time(warmgate_metrics_fresh_endpoints[1d]) > 0 and on (job, instance) " +
	rises("warmgate_metrics_scrapes_total", "", "job, instance") + ")"

var wrongPlugin = []panel{
	{
		title: "Plugin", well: "configuration in force",
		ask:  "Does the plugin run, with the configuration that was pushed?",
		act:  "The gateway's log names each mistake, in lines with warmgate:.",
		page: "docs/troubleshooting.md#the-plugin-is-not-loaded",
		queries: []query{
			{unknown, "not loaded, or not scraped"},
			{notScraped, "{{instance}}: not scraped"},
			{latest("warmgate_config_valid", "") + " == 0", "{{instance}}: configuration refused"},
			{
				happened("warmgate_config_rejected_total", "", "instance"),
				"{{instance}}: newest configuration refused",
			},
			{latest("warmgate_config_refused_rules", "") + " > 0", "{{instance}}: rules refused"},
			{
				latest("warmgate_owners", "") + " == 0 and max_over_time(warmgate_owners[1h]) > 0",
				"{{instance}}: VMs are dead",
			},
			{
				happened("warmgate_recovered_panics_total", "", "instance"),
				"{{instance}}: a defect, please report it",
			},
			{
				happened("warmgate_store_corrected_total", "", "instance"),
				"{{instance}}: counts corrected, please report it",
			},
		},
	},
	{
		title: "Redis", well: "answers, or is not used",
		ask: "Do gateways count together?",
		act: "The cause says what it is: auth is a wrong password, unreachable no connection, timeout a slow " +
			"Redis or gateway. Requests are served meanwhile, by what each gateway knows.",
		page: "docs/troubleshooting.md#redis-fails",
		queries: []query{
			{
				said(recent("warmgate_redis_failures_total", "", "cause", "2m")+" > 0.2",
					"cause", "auth", "wrong password (auth)"),
				"heartbeats: {{cause}}",
			},
			{noRedis, "{{instance}}: down"},
			{
				said(decided("warmgate_store_fallbacks_total", "", "cause"),
					"cause", "breaker_open", "it has just failed"),
				"without it: {{cause}}",
			},
		},
	},
	{
		title: "Engine metrics", well: "all are read, or not used",
		ask: "Are servers' metrics and lists of models read?",
		act: "The result says what it is: status is an answer such as 404, unreachable no connection. The " +
			"gateway's log names the server.",
		page: "docs/troubleshooting.md#engine-metrics-fail",
		queries: []query{
			{
				said(recent("warmgate_metrics_scrapes_total", `result!="ok"`, "result", "2m")+" > 0.05",
					"result", "status", "status, such as 404"),
				"scrapes fail: {{result}}",
			},
			{rises("warmgate_model_lists_total", `result!="ok"`, "result"), "lists of models fail: {{result}}"},
			{
				"max by (cluster) (" + latest("warmgate_metrics_lacking_endpoints", inCluster) + ") > 0",
				"{{cluster}}: a metric is missing",
			},
			{noMetrics, "{{cluster}}: metrics too old"},
			{
				rises("warmgate_decisions_total", `reason="no_metrics"`, "reason"),
				"requests without any: {{reason}}",
			},
		},
	},
	{
		title: "Native balancing", well: "no request is left to it",
		ask: "Which requests are balanced by the gateway itself, and why? Those that disabled or shadow " +
			"leave to it are not counted.",
		act:  "Look the reason up.",
		page: "docs/troubleshooting.md#all-requests-are-balanced-natively",
		queries: []query{
			{decided("warmgate_decisions_total", `reason=~"`+native+`"`, "reason"), "{{reason}}"},
		},
	},
}

const ended = "warmgate_endpoint_requests_total"

// unhealthy is how many servers fail the health checks of a gateway, in clusters that the plugin knows.
var unhealthy = `max by (cluster) (label_join(` + latest("envoy_cluster_membership_total", "") + " - " +
	latest("envoy_cluster_membership_healthy", "") + ` > 0, "cluster", "", "envoy_cluster_name") and ` +
	"on (instance, cluster) " + latest("warmgate_inflight_requests", inCluster) + ")"

// What servers fail, all that they end, and those that have little of it.
var (
	failed = recent(ended, inCluster+`, outcome="server_failed"`, server, "2m")
	all    = recent(ended, inCluster, server, "2m")
	// The same of clusters that are chosen among.
	failedClusters = recent("warmgate_cluster_requests_total", inCluster+`, result="failed"`, "cluster", "2m")
	ofClusters     = recent("warmgate_cluster_requests_total", inCluster, "cluster", "2m")

	little = still("5m", func(over string) string {
		much := recent(ended, inCluster, server, over)
		return much + " / on (cluster) group_left () (avg by (cluster) (" + much + ") > 0) < 0.25"
	})
)

var wrongServers = []panel{
	{
		title: "Servers that fail", well: "all answer",
		ask:  "Which servers fail requests, or get none because they did?",
		act:  "Look at that server. It gets requests again by itself once it answers.",
		page: "docs/troubleshooting.md#a-server-fails",
		queries: []query{
			{
				"max by (cluster) (" + latest("warmgate_ejected_endpoints", inCluster) + ") > 0",
				"{{cluster}}: ejected servers",
			},
			{share(failed, all) + " > 0.05", "{{endpoint}} fails"},
			{
				rises("warmgate_failed_answers_total", inCluster+`, reason!="refused"`, "endpoint, reason"),
				"{{endpoint}}: 200 with {{reason}}",
			},
			{unhealthy, "{{cluster}}: unhealthy servers"},
			{share(failedClusters, ofClusters) + " > 0.05", "{{cluster}} fails as a whole"},
		},
	},
	{
		title: "Slow servers", well: "equally fast",
		ask: "Which servers are slower than the others of their cluster: twice the time per token, or three " +
			"times the prefill? Which take twice the time per token of an hour or a day ago, while another has " +
			"not slowed?",
		act: "Look at that server: its GPU, its neighbours, its settings. Servers of unequal hardware are " +
			"meant to differ. If all are slow alike, this is green.",
		page: "docs/troubleshooting.md#a-server-is-slow",
		queries: []query{
			{ // a minute has enough tokens, if it has two scrapes; else two minutes
				timesPeers(perToken("1m"), 2) + " or " + timesPeers(perToken("2m"), 2) + " or " + slowed(),
				"{{endpoint}}: slow tokens",
			},
			{timesPeers(perStream("2m"), 3), "{{endpoint}}: slow first token"},
		},
	},
	{
		title: "Servers without work", well: "all have some",
		ask: "Which servers get less than a quarter of the mean of their cluster?",
		act: "A server that failed, or is new, gets little. If none did, a model or an adapter may be on a " +
			"part of the servers only.",
		page: "docs/troubleshooting.md#a-model-is-not-on-all-servers",
		queries: []query{
			{little, "{{endpoint}}: hardly any requests"},
		},
	},
	{
		title: "Models", well: "all are where they are asked for",
		ask: "Which models are asked for that some servers of a cluster have and others lack? Which are refused " +
			"to some requests?",
		act: "Compare the lists of models of the servers: GET /v1/models of each. Where none lacks a model, " +
			"clients send wrong requests.",
		page: "docs/troubleshooting.md#a-model-is-not-on-all-servers",
		queries: []query{
			{
				"max by (cluster, model) (" + latest("warmgate_model_lacking_endpoints", inCluster) + ") > 0 " +
					"unless on (cluster, model) (" + askedFor("2m") + " == 0)",
				"model {{model}}: not on all servers",
			},
			{still("10m", wrongModel), "{{model}}: answered 4xx"},
		},
	},
}

// askedFor is how often models are asked for. The gauge of servers that lack one stays for ten minutes longer.
func askedFor(over string) string {
	return recent("warmgate_requests_total", ofModel+`, model!=""`, "cluster, model", over)
}

// wrongModel is the share of each model's requests that servers have refused as wrong. Where all are, the model is
// nowhere.
func wrongModel(over string) string {
	wrong := share(recent("warmgate_requests_total", ofModel+`, model!="", outcome="client_error"`,
		"cluster, model", over), askedFor(over))
	return wrong + " > 0.02 and " + wrong + " < 0.95"
}

// What is refused although a server is idle, and what one tenant spends.
var (
	refused = rises("warmgate_queue_refusals_total", inCluster, "cluster") + " and on (cluster) (min by (cluster) (" +
		sum(server, latest("warmgate_inflight_requests", inCluster)) + ") == 0)"
	most = still("5m", func(over string) string {
		of := recent("warmgate_cost_nano_total", `tenant!=""`, "tenant, currency", over)
		spenders := "count by (currency) (" + of + " > 0)"
		return of + " / on (currency) group_left () (" +
			recent("warmgate_cost_nano_total", `tenant!=""`, "currency", over) + " > 0) > on (currency) group_left () " +
			"clamp(2 / " + spenders + ", 0.5, 0.8) and on (currency) " + spenders + " > 1"
	})
)

var wrongRequests = []panel{
	{
		title: "Queue", well: "nobody is refused",
		ask: "Are requests refused or given up while they wait? Do they although a server is idle?",
		act: "max_queue_size_exceeded: the queue is short, or servers are too few. queue_timeout and " +
			"clients that leave: it is long. Idle servers: caps are low.",
		page: "docs/troubleshooting.md#the-queue-has-the-wrong-size",
		queries: []query{
			{rises("warmgate_queue_refusals_total", inCluster, "reason"), "{{reason}}"},
			{rises("warmgate_queue_left_total", inCluster, ""), "clients leave"},
			{refused, "{{cluster}}: a server is idle"},
			{rises("warmgate_decisions_total", `reason="at_capacity"`, "reason"), "without a queue: {{reason}}"},
		},
	},
	{
		title: "Caches", well: "as expected",
		ask: "Has a server lost what it had cached, or is less cached than expected?",
		act: "A restart explains a loss. Again and again: the server runs out of memory and preempts, or " +
			"its cache is too small.",
		page: "docs/troubleshooting.md#a-cache-is-lost",
		queries: []query{
			{
				happened("warmgate_prefix_losses_total", inCluster, "cluster"),
				"{{cluster}}: a server has lost its cache",
			},
			{
				"max by (api, model) (" + lasting("warmgate_match_error_percent", "> 10") + ")",
				"{{model}}: other than expected",
			},
		},
	},
	{
		title: "Tenants and budgets", well: "all within theirs",
		ask: "Is a tenant or a target over its budget? Does one tenant cause most of the cost?",
		act: "Cost by tenant in the overview names it. Others are not affected by a tenant that is over its " +
			"own budget.",
		page: "docs/troubleshooting.md#one-tenant-takes-most",
		queries: []query{
			{rises("warmgate_budget_refusals_total", inCluster, "cluster, reason"), "{{cluster}}: {{reason}}"},
			{most, "{{tenant}}: most of the cost in {{currency}}"},
			{
				"max by (endpoint) (" + latest("warmgate_budget_closed_ms", inCluster) + ") > 0",
				"{{endpoint}}: closed by its answers",
			},
		},
	},
	{
		title: "Regions", well: "reachable, or none configured",
		ask:  "Can requests be sent to the other regions?",
		act:  "Look at the gateways of that region, and at the way there.",
		page: "docs/troubleshooting.md#a-region-is-not-reachable",
		queries: []query{
			{"max by (region) (" + latest("warmgate_region_available", "") + ") == 0", "{{region}}: not reachable"},
			{
				"max by (region) (" + latest("warmgate_region_adopted", "") + ") > 0",
				"{{region}}: its gateways are gone",
			},
			{happened("warmgate_region_hops_forged_total", "", "instance"), "{{instance}}: forged hops"},
			{rises("warmgate_region_probe_errors_total", "", "instance"), "{{instance}}: probes fail"},
		},
	},
}
