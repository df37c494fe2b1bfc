package config

import (
	"strings"
	"testing"
)

const metricsEnvoy = `"envoy":{"admin_cluster":"a"`

// metricsCases are configurations with keys of metrics, with the problem or the warning that they have.
var metricsCases = []struct {
	host    Host
	text    string
	problem string
	warning string
}{
	{host: Higress, text: `{"lb_policy":"endpoint_metrics"}`},
	{host: Higress, text: `{"lb_policy":"metrics_based","lb_config":{"metric_policy":"default","rate_limit":0.6}}`},
	{
		host: Higress,
		text: `{"lb_policy":"metrics_based","lb_config":{"metric_policy":"least",` +
			`"target_metric":"vllm:num_requests_waiting","rate_limit":"0.6"}}`,
	},
	{
		host: Higress, text: `{"lb_policy":"endpoint_metrics","lb_config":{"metric_policy":"most"}}`,
		warning: `lb_config.metric_policy is "most" of "", which is no name of a metric`,
	},
	{
		host:    Higress,
		text:    `{"lb_policy":"endpoint_metrics","lb_config":{"metric_policy":"most","target_metric":"a{b=1}"}}`,
		warning: `lb_config.metric_policy is "most" of "a{b=1}", which is no name`,
	},
	{host: Higress, text: `{"lb_policy":"endpoint_metrics","lb_config":{"engine":"tgi"}}`},
	{
		host: Higress, text: `{"lb_policy":"endpoint_metrics","lb_config":{"engine":"SGLang"}}`,
		warning: `lb_config.engine got "SGLang", taken as "auto"; did you mean "sglang"?`,
	},
	{host: Higress, text: `{"lb_policy":"endpoint_metrics","lb_config":{"engine":"tgi","metrics":{"engine":"tgi"}}}`},
	{
		host:    Higress,
		text:    `{"lb_policy":"endpoint_metrics","lb_config":{"engine":"tgi","metrics":{"engine":"vllm"}}}`,
		problem: `lb_config.metrics.engine: got "vllm" and engine "tgi"`,
	},
	{
		host: Higress, text: `{"lb_policy":"prefix_cache","lb_config":{"engine":"tgi"}}`,
		warning: "lb_config.engine has no effect without lb_policy endpoint_metrics",
	},
	{
		host: Higress, text: `{"lb_policy":"endpoint_metrics","lb_config":{"target_metric":"m"}}`,
		warning: "lb_config.target_metric has no effect with metric_policy default",
	},
	{
		host: Higress, text: `{"lb_policy":"endpoint_metrics","lb_config":{"metrics":{"port":8002}}}`,
		warning: "lb_config.metrics.port has no effect in Higress",
	},
	{
		host: Higress, text: `{"lb_policy":"endpoint_metrics","lb_config":{"metrics":{"interval":"3s"}}}`,
		problem: "lb_config.metrics.stale_after: got 3s, want more than interval, 3s",
	},
	{
		host: Higress, text: `{"lb_policy":"endpoint_metrics","lb_config":{"metrics":{"path":"metrics"}}}`,
		problem: `lb_config.metrics.path: got "metrics", want a path`,
	},
	{host: Higress, text: `{"lb_policy":"prefix_cache","lb_config":{"metrics":{"stale_after":"5s"}}}`},
	{
		host: Higress, text: `{"lb_policy":"prefix_cache","lb_config":{"metric_policy":"least"}}`,
		warning: "lb_config.metric_policy has no effect without lb_policy endpoint_metrics",
	},
	{
		host: Higress, text: `{"lb_policy":"global_least_request","lb_config":{"metrics":{"orca":true}}}`,
		warning: "lb_config.metrics.orca has no effect without lb_policy endpoint_metrics or prefix_cache",
	},
	{
		host: Envoy, text: `{"lb_policy":"endpoint_metrics","lb_config":{` + metricsEnvoy + `}}}`,
		problem: "lb_config.envoy.metrics_cluster: missing, want the name of the ORIGINAL_DST cluster",
	},
	{host: Envoy, text: `{"lb_policy":"endpoint_metrics","lb_config":{` + metricsEnvoy + `},"metrics":{"orca":true}}}`},
	{
		host: Envoy,
		text: `{"lb_policy":"endpoint_metrics","lb_config":{` +
			metricsEnvoy + `,"metrics_cluster":"m"},"metrics":{"port":8002}}}`,
	},
	{host: Envoy, text: `{"lb_policy":"prefix_cache","lb_config":{` + metricsEnvoy + `}}}`},
}

func TestEndpointMetrics(t *testing.T) {
	for _, c := range metricsCases {
		set, err := Parse([]byte(c.text), c.host)
		if c.problem != "" {
			if err == nil || !strings.Contains(err.Error(), c.problem) {
				t.Errorf("%s: %v, want %s", c.text, err, c.problem)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if warnings := strings.Join(set.Warnings(), "; "); c.warning == "" && warnings != "" ||
			!strings.Contains(warnings, c.warning) {
			t.Errorf("%s: warnings %q, want %q", c.text, warnings, c.warning)
		}
		got := set.Match("", "", "")
		if got.Policy == "metrics_based" {
			t.Errorf("%s: the policy has two names", c.text)
		}
		if want := c.host == Higress && got.Policy != "global_least_request" ||
			got.Engines.Cluster != ""; got.Scrapes(c.host) != want {
			t.Errorf("%s: engines are scraped: %v, want %v", c.text, !want, want)
		}
	}
}

// Higress uses 0 for no limit.
func TestShareLimit(t *testing.T) {
	for text, want := range map[string]float64{`0`: 1, `1`: 1, `"0.25"`: 0.25} {
		set, err := Parse([]byte(`{"lb_policy":"endpoint_metrics","lb_config":{"rate_limit":`+text+`}}`), Higress)
		if err != nil {
			t.Fatal(err)
		}
		if got := set.Match("", "", "").Engines.RateLimit; got != want {
			t.Errorf("rate_limit %s: %v, want %v", text, got, want)
		}
	}
}
