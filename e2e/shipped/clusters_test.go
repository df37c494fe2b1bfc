package shipped

import (
	"slices"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
)

// TestClustersConfiguration compares the files for a choice among clusters with each other: one plugin as in
// warmgate.yaml, routes that take the header which the plugin writes, and clusters that are there.
func TestClustersConfiguration(t *testing.T) {
	c := samePlugin(t, "warmgate-clusters.yaml")
	if !c.AmongClusters() || c.Clusters.Endpoint == nil {
		t.Fatalf("%+v", c)
	}
	sites := parse(t, "envoy-config/sites.yaml")
	var names []string
	for _, cluster := range find[[]struct{ Name string }](t, sites, "clusters") {
		names = append(names, cluster.Name)
	}
	if !slices.Equal(names, c.Clusters.List) {
		t.Errorf("service_list is %v, the clusters are %v", c.Clusters.List, names)
	}
	_, set := wasmPlugin(t, "higress-wasmplugin-cluster-metrics.yaml")
	filter := parse(t, "envoy-config/higress-envoyfilter-clusters.yaml")
	const patch, envoy = "spec.configPatches[0].patch.value", "routes[0]"
	for _, header := range []string{
		find[string](t, sites, envoy+".route.cluster_header"), find[string](t, sites, envoy+".match.headers[0].name"),
		find[string](t, filter, patch+".route.cluster_header"), find[string](t, filter, patch+".match.headers[0].name"),
		chat(t, set).Clusters.Header,
	} {
		if header != c.Clusters.Header {
			t.Errorf("a route takes %s, the plugin writes %s", header, c.Clusters.Header)
		}
	}
	const lua = "spec.configPatches[1].patch.value.typed_config.default_source_code.inline_string"
	if code := find[string](t, filter, lua); !strings.Contains(code, `:remove("`+c.Clusters.Header+`")`) {
		t.Errorf("the filter does not remove %s:\n%s", c.Clusters.Header, code)
	}
	bootstrap := parse(t, "envoy-config/envoy.yaml")
	route := find[string](t, bootstrap, harness.ManagerPath+".route_config.virtual_hosts[name=llm].routes[0].name")
	if name := find[string](t, sites, envoy+".name"); name != route {
		t.Errorf("the route is called %s, the default one %s", name, route)
	}
}
