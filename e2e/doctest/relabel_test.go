package doctest

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/internal/statname"
)

// relabeling is one of Prometheus's metric_relabel_configs with the action replace, as a PodMonitor writes it.
type relabeling struct {
	SourceLabels []string `yaml:"sourceLabels"`
	Regex        string   `yaml:"regex"`
	TargetLabel  string   `yaml:"targetLabel"`
	Replacement  string   `yaml:"replacement"`
}

// relabelings reads those that are shipped.
func relabelings(t *testing.T) []relabeling {
	t.Helper()
	var values struct {
		Core struct {
			Gateway struct {
				Metrics struct {
					Relabelings []relabeling `yaml:"metricRelabelings"`
				} `yaml:"metrics"`
			} `yaml:"gateway"`
		} `yaml:"higress-core"`
	}
	if err := yaml.Unmarshal(harness.ReadT(t, "deploy/higress/relabel-values.yaml"), &values); err != nil {
		t.Fatal(err)
	}
	list := values.Core.Gateway.Metrics.Relabelings
	if len(list) == 0 {
		t.Fatal("no relabelings")
	}
	return list
}

// relabel changes labels as Prometheus does: expressions match the whole of the source labels, joined by ";".
func relabel(t *testing.T, list []relabeling, labels map[string]string) {
	t.Helper()
	for _, r := range list {
		var from []string
		for _, name := range r.SourceLabels {
			from = append(from, labels[name])
		}
		source, to := strings.Join(from, ";"), r.Replacement
		if to == "" {
			to = "$1"
		}
		re, err := regexp.Compile("^(?s:" + r.Regex + ")$")
		if err != nil {
			t.Fatal(err)
		}
		if m := re.FindStringSubmatchIndex(source); m != nil {
			labels[r.TargetLabel] = string(re.ExpandString(nil, to, source, m))
		}
	}
}

// bare is a statistic's name in Envoy's Prometheus format without stats_tags.
func bare(name string) string { return regexp.MustCompile(`[^a-zA-Z0-9_]`).ReplaceAllString(name, "_") }

// relabelCases are names of statistics, and what the shipped rules make of them.
var relabelCases = []struct {
	stat   string
	labels []string
	want   map[string]string
}{
	{"warmgate_owners", nil, map[string]string{}},
	{
		"warmgate_decisions_total",
		[]string{"policy", "global_least_request", "reason", "chosen"},
		map[string]string{"policy": "global_least_request", "reason": "chosen"},
	},
	{
		"warmgate_inflight_requests",
		[]string{"cluster", "outbound|8000|v1|warmgate-a.b.svc.cluster.local", "endpoint", "10.0.0.12:8000"},
		map[string]string{
			"cluster": "outbound_8000_v1_warmgate_a_b_svc_cluster_local", "endpoint": "10.0.0.12:8000",
		},
	},
	{
		"warmgate_inflight_requests",
		[]string{"cluster", "outbound|8000||a.b", "endpoint", "[2001:db8::]:80"},
		map[string]string{"cluster": "outbound_8000__a_b", "endpoint": "_2001_db8____80"},
	},
	{
		"warmgate_queue_refusals_total",
		[]string{"cluster", "region-a", "class", "reason", "reason", "queue_timeout"},
		map[string]string{"cluster": "region_a", "class": "reason", "reason": "queue_timeout"},
	},
	{
		"warmgate_queue_wait_ms_bucket",
		[]string{"cluster", "a--b", "class", "batch"},
		map[string]string{"cluster": "a__b", "class": "batch"},
	},
	{
		"warmgate_token_gap_p99_ms_bucket",
		[]string{"cluster", "llm", "policy", "prefix_cache", "model", "qwen/qwen3-8b"},
		map[string]string{"cluster": "llm", "policy": "prefix_cache", "model": "qwen_qwen3_8b"},
	},
	{
		"warmgate_tokens_total",
		[]string{"cluster", "llm", "model", "m", "class", "c", "kind", "cached", "usage", "reported"},
		map[string]string{"cluster": "llm", "model": "m", "class": "c", "kind": "cached", "usage": "reported"},
	},
	{
		"warmgate_cost_nano_total",
		[]string{"model", "m", "tenant", "acme", "currency", "USD"},
		map[string]string{"model": "m", "tenant": "acme", "currency": "USD"},
	},
	{"warmgate_store_fallbacks_total", []string{"cause", "timeout"}, map[string]string{"cause": "timeout"}},
	{"warmgate_metrics_scrapes_total", []string{"result", "ok"}, map[string]string{"result": "ok"}},
	{"warmgate_region_rtt_ms", []string{"region", "eu-1"}, map[string]string{"region": "eu_1"}},
}

// TestRelabelings applies the shipped rules to names of statistics.
func TestRelabelings(t *testing.T) {
	list := relabelings(t)
	for _, c := range relabelCases {
		got := map[string]string{"__name__": bare(statname.With(c.stat, c.labels...))}
		relabel(t, list, got)
		c.want["__name__"] = c.stat
		if !maps.Equal(got, c.want) {
			t.Errorf("%q: got %q, want %q", c.labels, got, c.want)
		}
	}
	others := map[string]string{"__name__": "envoy_cluster_upstream_rq_total", "endpoint": "1_2_3_4_5", "cluster": "a"}
	want := maps.Clone(others)
	if relabel(t, list, others); !maps.Equal(others, want) {
		t.Errorf("the labels of another statistic became %q", others)
	}
}

// TestShippedTags compares the labels of which shipped files make rules with those that the plugin writes.
func TestShippedTags(t *testing.T) {
	want := writtenLabels(t)
	check := func(name string, tags []string) {
		if slices.Sort(tags); !slices.Equal(tags, want) {
			t.Errorf("%s: labels %v, want %v", name, tags, want)
		}
	}
	rule := regexp.MustCompile(`\{tag_name: (\w+), regex: '\((\w+)=\\\.=\(\.\*\?\);\\\.;\)'\}`)
	for _, name := range []string{
		"envoy-config/envoy.yaml", "envoy-config/envoy-hardened.yaml", "deploy/envoy-gateway/gateway.yaml",
	} {
		var tags []string
		for _, m := range rule.FindAllStringSubmatch(read(t, name), -1) {
			if m[1] != m[2] {
				t.Errorf("%s: the rule of %s is one of %s", name, m[1], m[2])
			}
			tags = append(tags, m[1])
		}
		check(name, tags)
	}
	for _, name := range []string{"deploy/higress/values.yaml", "docs/istio.md"} {
		list := regexp.MustCompile(`(?s)extraStatTags: \[(.*?)\]`).FindStringSubmatch(read(t, name))
		if list == nil {
			t.Fatalf("%s: no list", name)
		}
		check(name, regexp.MustCompile(`,\s*`).Split(list[1], -1))
	}
	annotation := regexp.MustCompile("extraStatTags` of its pods: `(.*?)`").
		FindStringSubmatch(read(t, "docs/metrics.md"))
	check("docs/metrics.md", strings.Split(annotation[1], ","))
	targets := map[string]bool{}
	for _, r := range relabelings(t) {
		targets[r.TargetLabel] = true
	}
	delete(targets, "__name__")
	check("relabel-values.yaml", slices.Collect(maps.Keys(targets)))
}

// istioLabels are those of Istio's own statistics.
var istioLabels = strings.Fields(`reporter source_workload source_workload_namespace source_principal source_app
	source_version source_cluster source_canonical_service source_canonical_revision destination_workload
	destination_workload_namespace destination_principal destination_app destination_version destination_cluster
	destination_service destination_service_name destination_service_namespace destination_canonical_service
	destination_canonical_revision request_protocol response_code response_flags grpc_response_status
	connection_security_policy`)

// TestRulesFindNothingElse looks for labels that end like another one: its rule, which is not bound to the beginning of
// a name, would find them, too. Those that end like one of Istio's are documented.
func TestRulesFindNothingElse(t *testing.T) {
	var also []string
	for _, label := range writtenLabels(t) {
		for _, other := range append(writtenLabels(t), istioLabels...) {
			switch {
			case other == label || !strings.HasSuffix(other, label):
			case slices.Contains(istioLabels, other):
				also = append(also, label)
			default:
				t.Errorf("the rule for %s finds the end of %s", label, other)
			}
		}
	}
	slices.Sort(also)
	if got := strings.Join(slices.Compact(also), " "); got != "cluster policy revision version" {
		t.Errorf("rules that find the ends of Istio's labels: %s", got)
	}
	says(t, "docs/metrics.md", "those for `policy`, `cluster`, `version` and `revision` also find")
}

// TestShippedBuckets compares the buckets of histograms in shipped files with each other, and with those in the docs.
func TestShippedBuckets(t *testing.T) {
	settings := regexp.MustCompile(`(?s)histogram_bucket_settings:\n(?: *- match: .*?\n *buckets: \[[\d\s,]+\]\n)+`)
	spaces := regexp.MustCompile(`\s+`)
	of := func(name string) string {
		return spaces.ReplaceAllString(settings.FindString(read(t, name)), " ")
	}
	want := of("envoy-config/envoy.yaml")
	for _, name := range []string{"envoy-config/envoy-hardened.yaml", "deploy/envoy-gateway/gateway.yaml"} {
		if got := of(name); got != want || got == "" {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
	}
	lists := regexp.MustCompile(`buckets: \[([\d, ]+)\]`).FindAllStringSubmatch(want, -1)
	if len(lists) != 4 {
		t.Errorf("%d lists of buckets in %q", len(lists), want)
	}
	for _, page := range []string{"docs/metrics-reference.md", "docs/metrics-reference_ZH.md"} {
		text := spaces.ReplaceAllString(read(t, page), " ")
		for _, list := range lists {
			if !strings.Contains(text, list[1]) {
				t.Errorf("%s does not have the buckets %s", page, list[1])
			}
		}
	}
}

// relabeled returns an error if the rules do not find a statistic with the labels wanted in a page of an Envoy without
// stats_tags.
func relabeled(t *testing.T, list []relabeling, page, stat string, want map[string]string) error {
	t.Helper()
	var seen []string
	for _, name := range regexp.MustCompile(`(?m)^\w*`+stat).FindAllString(page, -1) {
		got := map[string]string{"__name__": name}
		relabel(t, list, got)
		if got["__name__"] != stat {
			continue
		}
		if delete(got, "__name__"); maps.Equal(got, want) {
			return nil
		}
		seen = append(seen, fmt.Sprintf("%s: %q", name, got))
	}
	return fmt.Errorf("%s has never the labels %q, but\n%s", stat, want, strings.Join(seen, "\n"))
}
