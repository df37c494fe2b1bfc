package core

import (
	"maps"
	"slices"
	"testing"
	"time"
)

// Dashboards and alerts use these names: a change here affects every user.
func TestNamesOfStatistics(t *testing.T) {
	d := startFake(t, 1, 1, tokensConfig)
	courses["served"](d)
	d.ejects(0, d.Addr(0))
	d.advance(2 * time.Second)
	const cluster = ";cluster=" + fakeCluster
	endpoint := cluster + ";endpoint=" + d.Addr(0)
	const measured = cluster + ";policy=global_least_request"
	const ok = measured + ";outcome=ok"
	want := map[string]string{
		"warmgate_decisions_total;policy=global_least_request;reason=chosen": "counter",
		"warmgate_inflight_requests" + endpoint:                              "gauge",
		"warmgate_inflight_tokens" + endpoint:                                "gauge",
		"warmgate_ejections_total" + cluster:                                 "counter",
		"warmgate_ejected_endpoints" + cluster:                               "gauge",
		"warmgate_build_info;version=unknown;revision=unknown":               "gauge",
		"warmgate_owners":                 "gauge",
		"warmgate_owners_returned_total":  "counter",
		"warmgate_store_corrected_total":  "counter",
		"warmgate_store_retries_total":    "counter",
		"warmgate_recovered_panics_total": "counter",
		"warmgate_config_valid":           "gauge",
		"warmgate_config_rejected_total":  "counter",
		"warmgate_config_refused_rules":   "gauge",
		"warmgate_config_kept_rules":      "gauge",
		"warmgate_reserve_us":             "histogram",

		"warmgate_policy_info;policy=global_least_request":            "gauge",
		"warmgate_requests_total" + ok:                                "counter",
		"warmgate_request_duration_ms" + ok:                           "histogram",
		"warmgate_endpoint_requests_total" + endpoint + ";outcome=ok": "counter",

		"warmgate_request_tokens" + measured + ";kind=completion":           "histogram",
		"warmgate_tokens_total" + measured + ";kind=output;usage=estimated": "counter",
	}
	if !maps.Equal(d.metrics.kinds, want) {
		t.Errorf("statistics %q, want %q", slices.Sorted(maps.Keys(d.metrics.kinds)), slices.Sorted(maps.Keys(want)))
	}
}
