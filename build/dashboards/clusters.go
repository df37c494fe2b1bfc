package main

func clusterMetrics() *board {
	return &board{
		name: "cluster-metrics", title: "Warmgate: cluster_metrics and cluster_hash",
		about: "How clusters are chosen among.",
		vars:  []string{"cluster", "model"},
		rows:  []row{tuning("cluster_metrics"), clustersRow},
	}
}

var clustersRow = row{"Clusters", []panel{
	{
		title: "Requests by cluster", unit: "reqps", needs: "lb_type is cluster",
		ask:     "Which cluster serves how much?",
		normal:  "In proportion to their speed.",
		act:     "None at one: it is ejected, full, or without servers.",
		page:    "docs/clusters.md",
		queries: []query{{perSecond("warmgate_cluster_requests_total", inCluster, "cluster"), "{{cluster}}"}},
	},
	{
		title: "How they ended", unit: "reqps", needs: "lb_type is cluster",
		ask:    "How did requests to each cluster end?",
		normal: "served. other is the client's doing.",
		act:    "failed: look at that cluster.",
		page:   "docs/clusters.md",
		queries: []query{
			{perSecond("warmgate_cluster_requests_total", inCluster, "cluster, result"), "{{cluster}}: {{result}}"},
		},
	},
	{
		title: "Time to first token by cluster, 90 %", unit: "ms",
		ask:     "Which cluster is slow?",
		normal:  "Alike: the policy sends less to the slow one.",
		act:     "One that stays slow although it gets little needs to be looked at.",
		page:    "docs/troubleshooting.md#a-server-is-slow",
		queries: []query{{quantile("0.9", "warmgate_ttft_ms", ofModel, "cluster"), "{{cluster}}"}},
	},
}}

func regions() *board {
	return &board{
		name: "regions", title: "Warmgate: regions",
		about: "What goes to other regions, and comes from them.",
		rows:  []row{regionsRow},
	}
}

var regionsRow = row{"Regions", []panel{
	{
		title: "Sent to other regions", unit: "reqps", needs: "regions are configured",
		ask:    "Which requests are sent to other regions, and why?",
		normal: "Few. prefix: the prompt is cached there. time: it serves sooner.",
		act:    "Most requests: this region is too small.",
		page:   "docs/regions.md",
		queries: []query{
			{perSecond("warmgate_region_forwarded_total", "", "region, reason"), "{{region}}: {{reason}}"},
		},
	},
	{
		title: "Served for other regions", unit: "reqps", needs: "regions are configured",
		ask:     "Which regions send requests here?",
		normal:  "Those that are busy while this one is not.",
		act:     "Always the same one: it needs more servers.",
		page:    "docs/regions.md",
		queries: []query{{perSecond("warmgate_region_served_total", "", "region"), "{{region}}"}},
	},
	{
		title: "Came back", unit: "reqps", needs: "regions are configured",
		ask:     "Which regions fail requests that are then served at home?",
		normal:  "0.",
		act:     "Look at that region.",
		page:    "docs/regions.md#when-a-peer-fails",
		queries: []query{{perSecond("warmgate_region_returned_total", "", "region"), "{{region}}"}},
	},
	{
		title: "Reachable", unit: "short", needs: "regions are configured",
		ask:     "May requests be sent to each region?",
		normal:  "1.",
		act:     "0: its gateways do not answer probes, or have failed requests.",
		page:    "docs/troubleshooting.md#a-region-is-not-reachable",
		queries: []query{{"min by (region) (warmgate_region_available)", "{{region}}"}},
	},
	{
		title: "Round trip", unit: "ms", needs: "regions are configured",
		ask:     "How far away is each region?",
		normal:  "Even.",
		act:     "A jump: another way through the network.",
		page:    "docs/troubleshooting.md#a-region-is-not-reachable",
		queries: []query{{"max by (region) (warmgate_region_rtt_ms)", "{{region}}"}},
	},
	{
		title: "Age of what is known", unit: "ms", needs: "regions are configured",
		ask:     "How old is the latest answer of each region?",
		normal:  "Some seconds at most.",
		act:     "It rises: probes are not answered.",
		page:    "docs/troubleshooting.md#a-region-is-not-reachable",
		queries: []query{{"max by (region) (warmgate_region_probe_age_ms)", "{{region}}"}},
	},
	{
		title: "Probes that fail, and what is forged", unit: "cps", width: 12, needs: "regions are configured",
		ask:    "Is what comes from other regions signed, and in time?",
		normal: "0.",
		act:    "Secrets differ, clocks are apart, or somebody tries.",
		page:   "docs/troubleshooting.md#a-region-is-not-reachable",
		queries: []query{
			{perSecond("warmgate_region_probe_errors_total", "", ""), "probes: errors"},
			{perSecond("warmgate_region_probes_forged_total", "", ""), "probes: forged"},
			{perSecond("warmgate_region_hops_forged_total", "", ""), "hops: forged"},
			{perSecond("warmgate_region_hops_odd_total", "", "cause"), "hops: {{cause}}"},
		},
	},
	{
		title: "Adopted servers", unit: "reqps", width: 12, needs: "adopt is configured",
		ask:    "Which requests are served by servers of a region whose gateways are gone?",
		normal: "0.",
		act:    "Start the gateways of that region.",
		page:   "docs/regions.md#adopted-servers",
		queries: []query{
			{perSecond("warmgate_region_adopted_requests_total", "", "region, reason"), "{{region}}: {{reason}}"},
		},
	},
}}
