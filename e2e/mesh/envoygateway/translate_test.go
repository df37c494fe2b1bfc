package envoygateway

import (
	"encoding/json"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/mesh/lab"
)

// dump is what egctl translates resources to: messages of Envoy's page /config_dump, as JSON.
type dump struct {
	bootstrap map[string]any
	lab.Resources
}

// translate has Envoy Gateway translate resources into the configuration of Envoy.
func translate(t *testing.T, list []resource) *dump {
	t.Helper()
	file := filepath.Join(t.TempDir(), "all.yaml")
	write(t, file, list)
	out := egctl(t, "x", "translate", "--from", "gateway-api", "--to", "xds", "-o", "json", "-f", file)
	var result map[string]any
	if err := json.Unmarshal([]byte(out), &result); err != nil {
		t.Fatal(err)
	}
	d := new(dump)
	for _, message := range at(t, result, "xds", "default/eg", "configs").([]any) {
		message := message.(map[string]any)
		d.take(t, message)
	}
	if d.bootstrap == nil || len(d.Listeners) != 1 || len(d.Routes) != 1 || len(d.Clusters) == 0 {
		t.Fatalf("%d listeners, %d routes, %d clusters: %s", len(d.Listeners), len(d.Routes), len(d.Clusters), out)
	}
	return d
}

// take sorts the resources of one message by their kind.
func (d *dump) take(t *testing.T, message map[string]any) {
	t.Helper()
	all := func(key string, path ...any) (list []map[string]any) {
		resources, _ := message[key].([]any)
		for _, r := range resources {
			list = append(list, at(t, r, path...).(map[string]any))
		}
		return list
	}
	switch kind := message["@type"].(string); {
	case strings.HasSuffix(kind, ".BootstrapConfigDump"):
		d.bootstrap = at(t, message, "bootstrap").(map[string]any)
	case strings.HasSuffix(kind, ".ListenersConfigDump"):
		for _, l := range all("dynamicListeners", "activeState", "listener") {
			if l["name"] == listener { // there is another one, for the readiness of the pod
				d.Listeners = append(d.Listeners, l)
			}
		}
	case strings.HasSuffix(kind, ".ClustersConfigDump"):
		d.Clusters = all("dynamicActiveClusters", "cluster")
	case strings.HasSuffix(kind, ".RoutesConfigDump"):
		d.Routes = all("dynamicRouteConfigs", "routeConfig")
	case strings.HasSuffix(kind, ".EndpointsConfigDump"):
		d.Endpoints = all("dynamicEndpointConfigs", "endpointConfig")
	}
}

// cluster returns a cluster of the bootstrap.
func cluster(t *testing.T, bootstrap map[string]any, name string) map[string]any {
	t.Helper()
	for _, c := range at(t, bootstrap, "staticResources", "clusters").([]any) {
		if c := c.(map[string]any); c["name"] == name {
			return c
		}
	}
	t.Fatalf("the bootstrap has no cluster %s", name)
	return nil
}

// socket is an address in Envoy's API.
func socket(t *testing.T, addr string) map[string]any {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]any{"socketAddress": map[string]any{"address": host, "portValue": number}}
}

// localize makes a bootstrap of Envoy Gateway's one for this machine: the admin interface gets a port of its own, and
// nothing else listens.
func localize(t *testing.T, bootstrap map[string]any) (admin string) {
	t.Helper()
	admin = "127.0.0.1:" + harness.FreePortT(t)
	own := cluster(t, bootstrap, "prometheus_stats")
	endpoint := at(t, own, "loadAssignment", "endpoints", 0, "lbEndpoints", 0, "endpoint").(map[string]any)
	if at(t, endpoint, "address", "socketAddress", "portValue") !=
		at(t, bootstrap, "admin", "address", "socketAddress", "portValue") {
		t.Errorf("prometheus_stats does not lead to the admin interface: %v", endpoint)
	}
	endpoint["address"] = socket(t, admin)
	set(t, bootstrap, socket(t, admin), "admin", "address")
	delete(at(t, bootstrap, "admin").(map[string]any), "accessLog")
	set(t, bootstrap, []any{}, "staticResources", "listeners")
	return admin
}

// toServers replaces the only endpoint, which is the service's, by servers.
func (d *dump) toServers(t *testing.T, servers []*lab.Server) {
	t.Helper()
	for _, list := range d.Endpoints {
		if !strings.HasPrefix(list["clusterName"].(string), "httproute/default/llm/") {
			continue
		}
		var endpoints []any
		for _, s := range servers {
			endpoints = append(endpoints, map[string]any{"endpoint": map[string]any{"address": socket(t, s.Addr())}})
		}
		set(t, list, endpoints, "endpoints", 0, "lbEndpoints")
		return
	}
	t.Fatalf("the route's cluster has no endpoints: %v", d.Endpoints)
}

// TestWholeFilter runs what Envoy Gateway translates whole-filter.yaml into, and the policies beside it.
func TestWholeFilter(t *testing.T) { lab.OnVersions(t, wholeFilter) }

func wholeFilter(t *testing.T, version string) {
	list := append(read(t, "gateway.yaml"), read(t, "route.yaml")...)
	for _, r := range read(t, "warmgate.yaml") {
		if r["kind"] != "EnvoyExtensionPolicy" && r["kind"] != "EnvoyPatchPolicy" {
			list = append(list, r)
		}
	}
	delete(at(t, find(t, list, "HTTPRoute"), "spec", "rules", 0).(map[string]any), "sessionPersistence")
	list = append(append(list, read(t, "whole-filter.yaml")...), parse(t, service)...)
	d := translate(t, list)

	module, err := harness.Wasm(t.Context(), harness.HostEnvoy)
	if err != nil {
		t.Fatal(err)
	}
	servers := lab.Servers(t, 3)
	d.toServers(t, servers)
	filters := at(t, d.Listeners[0], "defaultFilterChain", "filters", 0, "typedConfig", "httpFilters").([]any)
	for _, f := range filters {
		if f := f.(map[string]any); f["name"] == "warmgate" {
			code := at(t, f, "typedConfig", "config", "vmConfig", "code", "local").(map[string]any)
			if code["filename"] != "/warmgate/plugin.wasm" {
				t.Errorf("the module is %v", code["filename"])
			}
			code["filename"] = module
			own := at(t, f, "typedConfig", "config", "configuration").(map[string]any)
			own["value"] = strings.Replace(own["value"].(string), `"lb_config": {`, `"lb_config": {"unit": "tokens",`, 1)
		}
	}
	port := harness.FreePortT(t)
	set(t, d.Listeners[0], socket(t, "127.0.0.1:"+port), "address")
	admin := localize(t, d.bootstrap)
	dir := t.TempDir()
	dynamic, err := d.WriteTo(dir)
	if err != nil {
		t.Fatal(err)
	}
	d.bootstrap["dynamicResources"] = dynamic
	d.bootstrap["node"] = map[string]any{"id": "eg", "cluster": "default/eg"}
	delete(d.bootstrap, "clusterManager")
	set(t, d.bootstrap, []any{cluster(t, d.bootstrap, "prometheus_stats")}, "staticResources", "clusters")
	text, err := json.Marshal(d.bootstrap)
	if err != nil {
		t.Fatal(err)
	}
	envoy := lab.Start(t, lab.Process{Version: version, Dir: dir, Bootstrap: text, Admin: admin})
	inOrder(t, envoy.Filters(t, envoy.Listener(t, port)), "warmgate", "warmgate-session")
	gateway := lab.Gateway{Envoy: envoy, URL: "http://127.0.0.1:" + port, Servers: servers}
	gateway.Check(t)
}
