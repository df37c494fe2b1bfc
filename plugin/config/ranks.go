package config

// checkRanks checks what is configured of ranks. Where they cannot be told apart, servers stay endpoints.
func checkRanks(pt *part) {
	r, why := &pt.Ranks, ""
	switch {
	case !r.Enabled:
		why = "without ranks.enabled true"
	case pt.AmongClusters():
		why = `with lb_type "cluster"; want it in lb_config.endpoint`
	case pt.needs().Budget:
		why = "with lb_policy " + pt.Policy + ", whose targets have budgets as a whole"
	case pt.Scrapes(pt.host):
	case r.Count == 0:
		why = "without envoy.metrics_cluster, as no metrics are read that show how many there are; " +
			"want it, or ranks.count"
	case pt.ByMetrics():
		why = "without envoy.metrics_cluster, as load reports say nothing of ranks"
	}
	if r.Apart = why == ""; r.Apart {
		return
	}
	keys := []string{keyRanks, keyRankCount}
	if !r.Enabled {
		keys = keys[1:]
	}
	pt.idle(keys, "has no effect "+why)
}
