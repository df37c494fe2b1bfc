package helm

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"

	"github.com/warmgate/warmgate/e2e/harness"
)

// resource is one of Kubernetes.
type resource = map[string]any

// read decodes the resources of a YAML text.
func read(t *testing.T, text []byte) (list []resource) {
	t.Helper()
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var r resource
		if err := d.Decode(&r); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if r != nil {
			list = append(list, r)
		}
	}
}

// shipped reads files of deploy/, in which the pairs of texts are replaced.
func shipped(t *testing.T, names []string, replace ...string) (list []resource) {
	t.Helper()
	for _, name := range names {
		text := strings.NewReplacer(replace...).Replace(string(harness.ReadT(t, "deploy/"+name)))
		list = append(list, read(t, []byte(text))...)
	}
	return list
}

// load reads Warmgate's chart.
func load(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.Load(harness.PathT(t, "deploy/helm"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// template renders a chart with values, as helm template does, but takes a name that nothing has for a mistake. It
// returns the text of all resources, and what Helm shows after an installation.
func template(c *chart.Chart, values map[string]any) (resources, notes string, err error) {
	release := chartutil.ReleaseOptions{Name: "warmgate", Namespace: "default", IsInstall: true}
	all, err := chartutil.ToRenderValues(c, values, release, chartutil.DefaultCapabilities)
	if err != nil {
		return "", "", err
	}
	files, err := engine.Engine{Strict: true}.Render(c, all)
	var texts []string
	for name, text := range files {
		if strings.HasSuffix(name, "NOTES.txt") {
			notes = text
		} else if strings.TrimSpace(text) != "" {
			texts = append(texts, text)
		}
	}
	slices.Sort(texts)
	return strings.Join(texts, "\n---\n"), notes, err
}

// given are values in YAML.
func given(t *testing.T, text string) map[string]any {
	t.Helper()
	values, err := chartutil.ReadValues([]byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return values
}

// complete adds what has no default to values that leave it open.
func complete(values map[string]any) map[string]any {
	add := func(section, name string, value any) map[string]any {
		m, _ := values[section].(map[string]any)
		if m == nil {
			m = map[string]any{}
			values[section] = m
		}
		if m[name] == nil {
			m[name] = value
		}
		into, _ := m[name].(map[string]any)
		return into
	}
	add("image", "registry", registry)
	if config, ok := values["config"].(map[string]any); ok && values["gateway"] == "higress" && len(config) > 0 {
		add("higress", "allRequests", true)
	}
	if values["gateway"] == "istio" {
		route := add("istio", "route", map[string]any{})
		if route != nil && route["hosts"] == nil && route["create"] != false {
			route["hosts"] = []any{"llm.example.com"}
		}
	}
	return values
}

// rendered are the resources of Warmgate's chart with values in YAML, each of which fits its schema.
func rendered(t *testing.T, values string) []resource {
	t.Helper()
	return renderedOf(t, load(t), complete(given(t, values)))
}

func renderedOf(t *testing.T, c *chart.Chart, values map[string]any) []resource {
	t.Helper()
	text, notes, err := template(c, values)
	if err != nil {
		t.Fatal(err)
	}
	list := read(t, []byte(text))
	if len(list) == 0 {
		t.Fatal("nothing is rendered")
	}
	if image, _ := values["image"].(map[string]any); image["registry"] != nil &&
		!strings.Contains(notes, image["registry"].(string)) {
		t.Errorf("the notes name no registry: %s", notes)
	}
	for _, r := range list {
		validate(t, r)
	}
	return withoutKeep(t, list)
}

// withoutKeep takes out what tells Helm to leave resources there when the release is uninstalled. Those that carry
// traffic, whatever plugin is in it, must have it, and no others.
func withoutKeep(t *testing.T, list []resource) []resource {
	t.Helper()
	traffic := []any{"GatewayClass", "EnvoyProxy", "Gateway", "VirtualService", "HTTPRoute"}
	for _, r := range list {
		metadata := at(t, r, "metadata").(map[string]any)
		annotations, _ := metadata["annotations"].(map[string]any)
		if keep := annotations["helm.sh/resource-policy"] == "keep"; keep != slices.Contains(traffic, r["kind"]) {
			t.Errorf("%s: kept is %v", r["kind"], keep)
		} else if keep {
			delete(metadata, "annotations")
		}
	}
	return list
}

// same compares lists of resources, in any order.
func same(t *testing.T, what string, got, want []resource) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d resources, want %d", what, len(got), len(want))
	}
	for _, w := range want {
		if !slices.ContainsFunc(got, func(g resource) bool { return reflect.DeepEqual(g, w) }) {
			t.Errorf("%s: no resource is\n%s\nbut there are", what, text(t, w))
			for _, g := range got {
				if g["kind"] == w["kind"] {
					t.Logf("%s", text(t, g))
				}
			}
		}
	}
}

const (
	example = "registry.example.com/warmgate"                 // in the files
	vllm    = "outbound|8000||vllm.default.svc.cluster.local" // the cluster of the service that they name
)

// The files of each gateway that the chart renders unless values say otherwise.
var (
	forHigress      = []string{"higress/warmgate.yaml"}
	forIstio        = []string{"istio/warmgate.yaml", "istio/metrics.yaml", "istio/service.yaml", "istio/route.yaml"}
	forEnvoyGateway = []string{
		"envoy-gateway/gateway.yaml", "envoy-gateway/warmgate.yaml", "envoy-gateway/metrics.yaml",
		"envoy-gateway/route.yaml",
	}
)

// TestDefaults compares what the chart renders without further values with the resources that are shipped: there is one
// source. On Higress they have examples of rules, which the chart is given.
func TestDefaults(t *testing.T) {
	for gateway, names := range map[string][]string{"istio": forIstio, "envoy-gateway": forEnvoyGateway} {
		same(t, gateway, rendered(t, "gateway: "+gateway), shipped(t, names, example, registry))
	}
	want := shipped(t, forHigress, example, registry)
	values := given(t, "gateway: higress")
	values["higress"] = map[string]any{"matchRules": at(t, want[0], "spec", "matchRules")}
	same(t, "higress", renderedOf(t, load(t), complete(values)), want)
}

// TestLint has Helm look for what is wrong with the chart itself.
func TestLint(t *testing.T) {
	for _, gateway := range []string{"istio", "envoy-gateway"} {
		values := complete(given(t, "gateway: "+gateway))
		linter := lint.All(harness.PathT(t, "deploy/helm"), values, "default", true)
		for _, m := range linter.Messages {
			t.Errorf("%s: %v", gateway, m)
		}
	}
}

// TestWays switches on the ways to Redis and to metrics: their files are rendered, and the plugin's configuration has
// what these say.
func TestWays(t *testing.T) {
	const ways = "redis: {enabled: true, username: warmgate, password: of-a-test}\n" +
		"config: {lb_policy: endpoint_metrics, _rules_: [{_match_route_: [httproute/a], lb_policy: " +
		"endpoint_metrics}, {_match_route_: [httproute/b], enabled: false}]}\n"
	for gateway, names := range map[string][]string{"istio": forIstio, "envoy-gateway": forEnvoyGateway} {
		folder := gateway + "/"
		names = append(slices.Clone(names), folder+"redis.yaml")
		list := rendered(t, "gateway: "+gateway+"\n"+ways)
		set := parsed(t, pluginOf(t, list))
		for _, route := range []string{"", "httproute/a"} {
			if c := set.Match(route, vllm, ""); c.Redis.Cluster != "warmgate-redis" || c.Redis.Username != "warmgate" ||
				c.Redis.Password != "of-a-test" || c.Engines.Cluster != "warmgate-metrics" ||
				c.EnvoyCfg.AdminCluster != "prometheus_stats" {
				t.Errorf("%s: the route %q has %+v", gateway, route, c)
			}
		}
		if c := set.Match("httproute/b", vllm, ""); c.Enabled {
			t.Errorf("%s: the rule that switches the plugin off is lost", gateway)
		}
		want := shipped(t, names, example, registry)
		same(t, gateway, withoutConfig(t, list), withoutConfig(t, want))
		list = rendered(t, "gateway: "+gateway+"\nredis: {enabled: true, host: 10.0.0.10, port: 6380}")
		if all := string(texts(t, list)); strings.Contains(all, "redis.default.svc") ||
			!strings.Contains(all, "address: 10.0.0.10\n") || !strings.Contains(all, "port_value: 6380\n") {
			t.Errorf("%s: the server is not reached:\n%s", gateway, all)
		}
	}
}
