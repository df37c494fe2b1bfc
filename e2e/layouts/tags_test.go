package layouts

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
)

// istioCluster is a name as Istio and Higress give clusters. It has what other rules of theirs look for: "cache.".
const istioCluster = "outbound|8000|v1|kv-cache.tag.svc.cluster.local"

// istioStat is a name with a label as Istio's own statistics have them, which ends like one of Warmgate's.
const istioStat = "source_version=.=v1;.;istio"

// statsConfigs are what the bootstraps of control planes say about statistics, as far as it can concern a plugin's:
// rules that are bound to the beginning of other names are left out. extraStatTags is where they put the operator's,
// statsHistogramBuckets where Istio puts those of an annotation.
var statsConfigs = map[string]string{
	"Istio": `
use_all_default_tags: false
stats_tags:
- {tag_name: response_code, regex: '_rq(_(\d{3}))$'}
- {tag_name: response_code_class, regex: '_rq(_(\dxx))$'}
- {tag_name: source_version, regex: '(source_version=\.=(.*?);\.;)'}
extraStatTags
- {tag_name: cache, regex: '(cache\.(.+?)\.)'}
- {tag_name: component, regex: '(component\.(.+?)\.)'}
- {tag_name: tag, regex: '(tag\.(.+?);\.)'}
- {tag_name: wasm_filter, regex: '(wasm_filter\.(.+?)\.)'}
- {tag_name: authz_enforce_result, regex: 'rbac(\.(allowed|denied))'}
- {tag_name: authz_dry_run_action, regex: '(\.istio_dry_run_(allow|deny)_)'}
- {tag_name: authz_dry_run_result, regex: '(\.shadow_(allowed|denied))'}
stats_matcher: {inclusion_list: {patterns: [{prefix: "cluster.source_version="}, {prefix: "reporter="},
  {prefix: cluster_manager}, {prefix: wasm}]}}
histogram_bucket_settings: [statsHistogramBuckets]`,
	"Higress": `
use_all_default_tags: false
stats_tags:
- {tag_name: ai_route, regex: '^wasmcustom\.route\.((.*?)\.)upstream'}
- {tag_name: ai_cluster, regex: '^wasmcustom\..*?\.upstream\.((.*?)\.)model'}
- {tag_name: ai_model, regex: '^wasmcustom\..*?\.model\.((.*?)\.)consumer'}
- {tag_name: ai_consumer, regex: '^wasmcustom\..*?\.consumer\.((.*?)\.)metric'}
extraStatTags
- {tag_name: response_code_class, regex: '_rq(_(\dxx))$'}
stats_matcher: {inclusion_list: {patterns: [{prefix: "reporter="}, {prefix: cluster_manager}, {prefix: wasm}]}}`,
}

// values are those that are shipped for Higress's Helm chart.
type values struct {
	Core struct {
		Mesh struct {
			Format  string `yaml:"accessLogFormat"`
			Default struct {
				Tags []string `yaml:"extraStatTags"`
			} `yaml:"defaultConfig"`
		} `yaml:"meshConfig"`
	} `yaml:"higress-core"`
}

// statsConfig returns a control plane's stats_config with an operator's tags.
func statsConfig(t *testing.T, of string, names []string) any {
	t.Helper()
	var tags []string
	for _, name := range names {
		tags = append(tags, fmt.Sprintf(`- {tag_name: %s, regex: '(%[1]s=\.=(.*?);\.;)'}`, name))
	}
	var config any
	text := strings.NewReplacer(
		"extraStatTags", strings.Join(tags, "\n"), "statsHistogramBuckets", annotatedBuckets(t),
	).Replace(statsConfigs[of])
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		t.Fatal(err)
	}
	return config
}

// annotatedBuckets returns the setting that Istio makes of the annotation in the docs.
func annotatedBuckets(t *testing.T) string {
	t.Helper()
	const rule = "statsHistogramBuckets: '\\{\"(\\w+)\": (\\[[\\d\\s,]+\\])\\}'"
	m := regexp.MustCompile(rule).FindSubmatch(harness.ReadT(t, "docs/metrics-reference.md"))
	if m == nil {
		t.Fatal("docs/metrics-reference.md has no buckets for Istio")
	}
	return fmt.Sprintf("{match: {prefix: %s}, buckets: %s}", m[1], m[2])
}

// logFormat is where the format of the access log is.
const logFormat = harness.ManagerPath + ".access_log[0].typed_config.log_format.text_format_source.inline_string"

// underControl changes the shipped files to a control plane's stats_config and name of the cluster, and to the access
// log's format of the values that are shipped for Higress.
func underControl(config any, format string) func(file string, doc *yaml.Node) error {
	return func(file string, doc *yaml.Node) error {
		const cluster = "resources[name=llm]"
		switch file {
		case "envoy.yaml":
			return errors.Join(
				harness.Set(doc, "stats_config", config),
				harness.Set(doc, logFormat, format),
				harness.Set(doc, "static_resources.clusters[name=warmgate-admin].alt_stat_name", istioStat),
				harness.Set(doc, harness.RoutesPath+"[name=llm].route.cluster", istioCluster))
		case "clusters.yaml":
			return errors.Join(
				harness.Set(doc, cluster+".eds_cluster_config.service_name", "llm"),
				// Otherwise it is the cluster's name, and Go's server refuses one with "|".
				harness.Set(doc, cluster+".health_checks[0].http_health_check.host", "llm"),
				harness.Set(doc, cluster+".name", istioCluster))
		}
		return nil
	}
}

// With the bootstraps of control planes, statistics have their labels whole, whatever the cluster is called, and the
// access log shows decisions.
func TestLabelsByControlPlanes(t *testing.T) {
	var shipped values
	if err := yaml.Unmarshal(harness.ReadT(t, "deploy/higress/values.yaml"), &shipped); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		others, line string
		bucket       string // that a histogram has by its settings
	}{
		// Its own rules find more in the name of this cluster, and add labels; they change none of Warmgate's. Rules of
		// Warmgate's labels do the same to its own statistics.
		"Istio": {
			`(,cache="tag"|,tag="svc\.cluster\.local")*`,
			`envoy_cluster_istio_upstream_rq_total\{source_version="v1",version="v1"\} \d+`, "80000",
		},
		"Higress": {"", `warmgate_config_valid\{\} 1`, "10000"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream := harness.Models(t, 1)
			g := harness.StartT(t, harness.Options{
				Endpoints: upstream, Config: `{"lb_policy":"global_least_request",
				"lb_config":{"unit":"tokens","debug_headers":true,"envoy":{"admin_cluster":"warmgate-admin"}}}`,
				Edit: underControl(statsConfig(t, name, shipped.Core.Mesh.Default.Tags), shipped.Core.Mesh.Format),
			})
			harness.AwaitReason(t, g.URL(), "chosen")
			harness.Await(t, func() error { return isLogged(g.AccessLog(), upstream[0].Addr) })
			cluster := `cluster="` + regexp.QuoteMeta(istioCluster) + `",`
			of := cluster + `endpoint="` + regexp.QuoteMeta(upstream[0].Addr) + `"`
			request := `policy="global_least_request",` + cluster + `(model="[^"]+",)?outcome="ok"` + c.others
			for _, line := range []string{
				`warmgate_decisions_total\{policy="[a-z_]+",reason="chosen"\} [1-9]\d*`,
				`warmgate_inflight_requests\{` + of + c.others + `\} 0`,
				`warmgate_inflight_tokens\{` + of + c.others + `\} 0`,
				`warmgate_owners\{\} [1-9]\d*`,
				`warmgate_requests_total\{` + request + `\} [1-9]\d*`,
				`warmgate_request_duration_ms_bucket\{` + request + `,le="` + c.bucket + `"\} [1-9]\d*`,
				c.line,
				`warmgate_build_info\{version="[^"]+",revision="[^"]+"\} 1`,
			} {
				harness.Await(t, func() error {
					page := g.PrometheusT(t)
					if !regexp.MustCompile(`(?m)^` + line + `$`).MatchString(page) {
						return fmt.Errorf("no line %s:\n%s", line,
							strings.Join(regexp.MustCompile(`(?m)^.*warmgate_.*$`).FindAllString(page, -1), "\n"))
					}
					return nil
				})
			}
		})
	}
}

// isLogged returns what is wrong with an access log: it must be JSON, with the decision for one of the endpoint in it.
func isLogged(log, endpoint string) error {
	seen := false
	for _, line := range strings.Split(strings.TrimSpace(log), "\n") {
		var fields map[string]string
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			return fmt.Errorf("%s: %w", line, err)
		}
		seen = seen || strings.HasPrefix(fields["warmgate"], "host="+endpoint+" reason=chosen")
	}
	if !seen {
		return fmt.Errorf("no decision in the access log:\n%s", log)
	}
	return nil
}
