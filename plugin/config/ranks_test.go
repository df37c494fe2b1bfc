package config

import (
	"strings"
	"testing"
)

// What the keys of ranks need of others is said, and what has no effect.
func TestRanks(t *testing.T) {
	const envoy = `"envoy":{"admin_cluster":"a"},`
	for _, c := range []struct {
		raw, want string // a part of the error, or of the warnings; "" for none of them
		host      Host
	}{
		{`{"lb_policy":"prefix_cache","lb_config":{"ranks":{"enabled":true}}}`, "", Higress},
		{`{"lb_policy":"global_least_request","lb_config":{"ranks":{"enabled":true}}}`, "", Higress},
		{
			`{"lb_policy":"global_least_request","lb_config":{` + envoy + `"ranks":{"enabled":true,"count":64}}}`, "",
			Envoy,
		},
		{
			`{"lb_policy":"global_least_request","lb_config":{` + envoy + `"ranks":{"enabled":true}}}`,
			"ranks.enabled has no effect without envoy.metrics_cluster, as no metrics", Envoy,
		},
		{
			`{"lb_policy":"global_least_request","lb_config":{"envoy":{"admin_cluster":"a","metrics_cluster":"m"},` +
				`"ranks":{"enabled":true}}}`, "", Envoy,
		},
		{
			`{"lb_policy":"endpoint_metrics","lb_config":{` + envoy + `"metrics":{"orca":true},` +
				`"ranks":{"enabled":true,"count":2}}}`, "ranks.count has no effect without envoy.metrics_cluster, as load reports", Envoy,
		},
		{
			`{"lb_policy":"prefix_cache","lb_config":{"ranks":{"enabled":true,"count":65}}}`, "ranks.count: got 65",
			Higress,
		},
		{`{"lb_policy":"prefix_cache","lb_config":{"ranks":{"count":8}}}`, "ranks.count has no effect", Higress},
		{
			`{"lb_type":"cluster","lb_policy":"cluster_metrics","lb_config":{"mode":"LeastBusy",` +
				`"service_list":["a.dns","b.dns"],"ranks":{"enabled":true}}}`, "ranks.enabled has no effect with lb_type", Higress,
		},
		{
			`{"lb_policy":"token_budget","lb_config":{"targets":{"10.0.0.1:80":{"weight":1}},` +
				`"ranks":{"enabled":true,"count":2}}}`,
			"whose targets have budgets as a whole", Higress,
		},
	} {
		set, err := Parse([]byte(c.raw), c.host)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = strings.Join(set.Warnings(), "\n")
		}
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.raw, got, c.want)
		}
	}
}

// A change of ranks is another need of metrics.
func TestMetricsIDOfRanks(t *testing.T) {
	ids := map[uint64]bool{}
	for _, ranks := range []string{"", `"ranks":{"enabled":true}`} {
		set, err := Parse([]byte(`{"lb_policy":"endpoint_metrics","lb_config":{`+ranks+`}}`), Higress)
		if err != nil {
			t.Fatal(err)
		}
		ids[set.All()[0].MetricsID()] = true
	}
	if len(ids) != 2 {
		t.Error("the same with ranks as without")
	}
}
