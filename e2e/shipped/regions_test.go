package shipped

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/plugin/config"
)

// TestRegionsConfiguration compares the files for forwarding between regions with each other: one plugin as in
// warmgate.yaml, a route that takes the header which the plugin writes, and clusters that are there, of which the
// aggregate has the peer in front of this region's own servers.
func TestRegionsConfiguration(t *testing.T) {
	c := samePlugin(t, "warmgate-regions.yaml")
	r, regions := &c.Regions, parse(t, "envoy-config/regions.yaml")
	if !c.Queue.Enabled() || !c.Scrapes(config.Envoy) || len(r.Peers) != 1 {
		t.Fatalf("%+v", c)
	}
	peer := &r.Peers[0]
	var names []string
	for _, cluster := range find[[]struct{ Name string }](t, regions, "clusters") {
		names = append(names, cluster.Name)
	}
	if want := []string{peer.Cluster, peer.Forward, peer.Adopt}; !slices.Equal(names, want) {
		t.Errorf("the clusters are %v, the plugin names %v", names, want)
	}
	chain := find[[]string](t, regions, "clusters[name="+peer.Forward+"].cluster_type.typed_config.clusters")
	if want := []string{peer.Cluster, r.Cluster}; !slices.Equal(chain, want) {
		t.Errorf("requests are sent to %v, want %v", chain, want)
	}
	for _, header := range []string{
		find[string](t, regions, "routes[0].route.cluster_header"),
		find[string](t, regions, "routes[0].match.headers[0].name"),
		find[string](t, regions, "early_header_mutation_extensions[0].typed_config.mutations[0].remove"),
	} {
		if header != r.Header {
			t.Errorf("the file has %s, the plugin writes %s", header, r.Header)
		}
	}
	bootstrap := parse(t, "envoy-config/envoy.yaml")
	own := harness.ManagerPath + ".route_config.virtual_hosts[name=llm].routes[0]"
	if name := find[string](t, bootstrap, own+".name"); name != find[string](t, regions, "routes[0].name") {
		t.Errorf("the default route is called %s", name)
	}
	if cluster := find[string](t, bootstrap, own+".route.cluster"); cluster != r.Cluster {
		t.Errorf("the default route leads to %s, this region's servers are in %s", cluster, r.Cluster)
	}
}

// TestAdoptsAfterHealthChecks has servers that die with their gateways be found dead before they would be adopted.
func TestAdoptsAfterHealthChecks(t *testing.T) {
	c := samePlugin(t, "warmgate-regions.yaml")
	check := find[struct {
		Timeout, Interval time.Duration
		NoTraffic         time.Duration `yaml:"no_traffic_interval"`
		Threshold         int           `yaml:"unhealthy_threshold"`
	}](t, parse(t, "envoy-config/regions.yaml"), "clusters[name="+c.Regions.Peers[0].Adopt+"].health_checks[0]")
	found := c.EnvoyCfg.PollInterval +
		time.Duration(check.Threshold)*(max(check.Interval, check.NoTraffic)+check.Timeout)
	if check.Threshold == 0 || c.Regions.Gone <= found {
		t.Errorf("adopted after %v, found dead after %v: %+v", c.Regions.Gone, found, check)
	}
}

// TestRegionsOnHigress does so with the files for Higress.
func TestRegionsOnHigress(t *testing.T) {
	_, set := wasmPlugin(t, "higress-wasmplugin-regions.yaml")
	r, filter := &chat(t, set).Regions, parse(t, "envoy-config/higress-envoyfilter-regions.yaml")
	const value = ".patch.value"
	route, lua := "spec.configPatches[0]"+value, "spec.configPatches[1]"+value
	peer, aggregate := &r.Peers[0], "spec.configPatches[2]"+value
	if name := find[string](t, filter, aggregate+".name"); name != peer.Forward || peer.Adopt == "" {
		t.Errorf("the aggregate is %s: %+v", name, r.Peers)
	}
	chain := find[[]string](t, filter, aggregate+".cluster_type.typed_config.clusters")
	if want := []string{peer.Cluster, r.Cluster}; !slices.Equal(chain, want) {
		t.Errorf("requests are sent to %v, want %v", chain, want)
	}
	for _, header := range []string{
		find[string](t, filter, route+".route.cluster_header"),
		find[string](t, filter, route+".match.headers[0].name"),
	} {
		if header != r.Header {
			t.Errorf("the file has %s, the plugin writes %s", header, r.Header)
		}
	}
	code := find[string](t, filter, lua+".typed_config.default_source_code.inline_string")
	if !strings.Contains(code, `:remove("`+r.Header+`")`) {
		t.Errorf("the filter does not remove %s:\n%s", r.Header, code)
	}
	// Both gateways retry alike.
	stock := parse(t, "envoy-config/regions.yaml")
	for _, member := range []string{
		".retry_on", ".retry_priority.name", ".retry_priority.typed_config.update_frequency",
	} {
		a := find[string](t, filter, route+".route.retry_policy"+member)
		if b := find[string](t, stock, "routes[0].route.retry_policy"+member); a != b {
			t.Errorf("%s is %s on Higress, %s on stock Envoy", member, a, b)
		}
	}
}
