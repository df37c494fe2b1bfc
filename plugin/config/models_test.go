package config

import (
	"maps"
	"strings"
	"testing"
	"time"
)

// The cases of these keys: see keyCases.
func init() {
	maps.Copy(keyCases, map[string]keyCase{
		"lb_config.models.cluster": {`"m"`, func(c *Config) { c.Models.Cluster = "m" }, []string{`""`, `1`}},
		"lb_config.models.path": {
			`"/v3/models"`, func(c *Config) { c.Models.Path = "/v3/models" }, []string{`""`, `"models"`, `"/a b"`, `1`},
		},
		"lb_config.models.interval": {
			`"30s"`, func(c *Config) { c.Models.Interval = 30 * time.Second }, []string{`999`, `"2h"`},
		},
		keyModelsRefuse:   {`true`, func(c *Config) { c.Models.RefuseUnknown = true }, []string{`1`, `"true"`}},
		keyModelsAffinity: {`true`, func(c *Config) { c.Models.Affinity = true }, []string{`1`, `"true"`}},
	})
}

// What has no effect is said, and a choice among clusters reads no lists: its candidates are no servers.
func TestModelListsWithoutEffect(t *testing.T) {
	const among = `{"lb_type":"cluster","lb_policy":"cluster_metrics","lb_config":{"mode":"LeastBusy",` +
		`"service_list":["a","b"],`
	for _, c := range []struct {
		name, text, warning string
		reads               bool
	}{
		{"any policy", `{"lb_policy":"global_least_request","lb_config":{"models":{"cluster":"m"}}}`, "", true},
		{
			"no cluster", `{"lb_policy":"prefix_cache","lb_config":{"models":{"interval":"1m"}}}`,
			"lb_config.models.interval has no effect without models.cluster", false,
		},
		{
			"among clusters", among + `"models":{"cluster":"m"}}}`,
			`lb_config.models.cluster has no effect with lb_type "cluster"`, false,
		},
		{
			"unknown models without lists", `{"lb_policy":"prefix_cache","lb_config":{"models":{"refuse_unknown":true}}}`,
			"lb_config.models.refuse_unknown has no effect without models.cluster", false,
		},
		{"affinity alone", `{"lb_policy":"prefix_cache","lb_config":{"models":{"affinity":true}}}`, "", false},
		{
			"what it costs", `{"lb_policy":"global_least_request","lb_config":{"models":{"affinity":true},` +
				`"metrics":{"weights":{"lora":8}}}}`, "", false,
		},
		{
			"affinity at no cost", `{"lb_policy":"prefix_cache","lb_config":{"models":{"affinity":true},` +
				`"metrics":{"weights":{"lora":0}}}}`,
			"lb_config.models.affinity has no effect with metrics.weights.lora 0", false,
		},
		{
			"affinity by a metric", `{"lb_policy":"endpoint_metrics","lb_config":{"models":{"affinity":true},` +
				`"metric_policy":"least","target_metric":"m"}}`,
			"lb_config.models.affinity has no effect with metric_policy least", false,
		},
		{
			"affinity with budgets", `{"lb_policy":"token_budget","lb_config":{"targets":{"10.0.0.1:80":{"weight":1}},` +
				`"models":{"affinity":true}}}`,
			"lb_config.models.affinity has no effect with lb_policy token_budget", false,
		},
	} {
		set, err := Parse([]byte(c.text), Higress)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got := set.global.ReadsModelLists(); got != c.reads {
			t.Errorf("%s: lists are read: %v", c.name, got)
		}
		got := strings.Join(set.Warnings(), "\n")
		if !strings.Contains(got, c.warning) || c.warning == "" && got != "" {
			t.Errorf("%s: warnings %q", c.name, got)
		}
	}
	set, err := Parse([]byte(among+`"endpoint":{"lb_policy":"global_least_request",`+
		`"lb_config":{"models":{"cluster":"m"}}}}}`), Higress)
	if err != nil || !set.global.Clusters.Endpoint.ReadsModelLists() || !set.Owns("m") {
		t.Errorf("inside a cluster: %v", err)
	}
}

// The plugin's own cluster is none to choose.
func TestModelsClusterIsNoChoice(t *testing.T) {
	_, err := Parse([]byte(`{"lb_type":"cluster","lb_policy":"cluster_metrics","lb_config":{"mode":"LeastBusy",`+
		`"service_list":["m","b"],"models":{"cluster":"m"}}}`), Higress)
	if err == nil || !strings.Contains(err.Error(), "through which the plugin makes its own calls") {
		t.Errorf("got %v", err)
	}
}
