package envoygateway

import (
	"bytes"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/mesh/lab"
)

// onMachine refers to the model servers.
var onMachine = resource{"group": "gateway.envoyproxy.io", "kind": "Backend", "name": "vllm"}

// onHost changes resources so that they are about this machine: the Gateway has a port of its own, on 127.0.0.1; the
// model servers are named by address.
func onHost(t *testing.T, list []resource, port string, servers []*lab.Server) []resource {
	t.Helper()
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	set(t, find(t, list, "Gateway"), number, "spec", "listeners", 0, "port")
	set(t, find(t, list, "EnvoyProxy"), map[string]any{
		"type": "Host", "host": map[string]any{"envoyVersion": envoyVersion},
	}, "spec", "provider")
	for _, r := range list {
		if r["kind"] == "HTTPRoute" {
			set(t, r, []any{onMachine}, "spec", "rules", 0, "backendRefs")
		}
	}
	var endpoints []any
	for _, s := range servers {
		host, port, _ := net.SplitHostPort(s.Addr())
		number, _ := strconv.Atoi(port)
		endpoints = append(endpoints, map[string]any{"ip": map[string]any{"address": host, "port": number}})
	}
	return append(list, resource{
		"apiVersion": "gateway.envoyproxy.io/v1alpha1", "kind": "Backend",
		"metadata": map[string]any{"name": "vllm", "namespace": "default"},
		"spec":     map[string]any{"endpoints": endpoints},
	})
}

// machine are patches for what has fixed names in Kubernetes: the address of the listener, the way to the control
// plane, and its certificate.
func machine(certificate string) resource {
	patch := func(kind, name, path string, value any) any {
		return map[string]any{
			"type": "type.googleapis.com/envoy.config." + kind, "name": name,
			"operation": map[string]any{"op": "replace", "path": path, "value": value},
		}
	}
	const where = "/load_assignment/endpoints/0/lb_endpoints/0/endpoint/address/socket_address/address"
	const trusted = "/transport_socket/typed_config/common_tls_context/validation_context/trusted_ca/filename"
	return resource{
		"apiVersion": "gateway.envoyproxy.io/v1alpha1", "kind": "EnvoyPatchPolicy",
		"metadata": map[string]any{"name": "machine", "namespace": "default"},
		"spec": map[string]any{
			"type":      "JSONPatch",
			"targetRef": map[string]any{"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "eg"},
			"jsonPatches": []any{
				patch("listener.v3.Listener", "default/eg/http", "/address/socket_address/address", "127.0.0.1"),
				patch("cluster.v3.Cluster", "wasm_cluster", where, "127.0.0.1"),
				patch("cluster.v3.Cluster", "wasm_cluster", trusted, certificate),
			},
		},
	}
}

// listener is the name of the gateway's listener in Envoy.
const listener = "default/eg/http"

// running is what runs of resources: the control plane, and an Envoy.
type running struct {
	*lab.Gateway
	plane *controlPlane
	args  []string // with which the control plane starts Envoy
}

// controlled runs a gateway of resources: the control plane, a release of Envoy and three servers.
func controlled(t *testing.T, version string, list []resource) *running {
	t.Helper()
	servers := lab.Servers(t, 3)
	dir, port := t.TempDir(), harness.FreePortT(t)
	list = onHost(t, list, port, servers)
	plane := startControlPlane(t, dir, append(list, machine(filepath.Join(dir, "config/certs/envoy/ca.crt"))))

	given := plane.envoyArgs(t)
	var bootstrap map[string]any
	if err := yaml.Unmarshal([]byte(option(t, given, "--config-yaml")), &bootstrap); err != nil {
		t.Fatal(err)
	}
	var args []string
	for _, name := range []string{"--service-cluster", "--service-node", "--drain-time-s", "--drain-strategy"} {
		args = append(args, name, option(t, given, name))
	}
	admin := "127.0.0.1:" + harness.FreePortT(t)
	withAdmin(t, bootstrap, admin)
	var text bytes.Buffer
	if err := yaml.NewEncoder(&text).Encode(bootstrap); err != nil {
		t.Fatal(err)
	}
	envoy := lab.Start(t, lab.Process{
		Version: version, Dir: dir, Bootstrap: text.Bytes(), Admin: admin, Args: args,
	})
	if name := envoy.Listener(t, port); name != listener {
		t.Fatalf("the listener is called %s", name)
	}
	return &running{&lab.Gateway{Envoy: envoy, URL: "http://127.0.0.1:" + port, Servers: servers}, plane, given}
}

// withAdmin gives a bootstrap an admin interface, and the cluster that leads to it: without Kubernetes Envoy Gateway
// leaves out what is there for Prometheus.
func withAdmin(t *testing.T, bootstrap map[string]any, admin string) {
	t.Helper()
	host, port, _ := net.SplitHostPort(admin)
	address := fmt.Sprintf("{socket_address: {address: %s, port_value: %s}}", host, port)
	var parts struct{ Admin, Cluster map[string]any }
	if err := yaml.Unmarshal([]byte(`
admin: {address: `+address+`}
cluster:
  name: prometheus_stats
  connect_timeout: 0.250s
  type: STATIC
  load_assignment:
    cluster_name: prometheus_stats
    endpoints: [{lb_endpoints: [{endpoint: {address: `+address+`}}]}]
`), &parts); err != nil {
		t.Fatal(err)
	}
	bootstrap["admin"] = parts.Admin
	clusters := at(t, bootstrap, "static_resources", "clusters").([]any)
	set(t, bootstrap, append(clusters, parts.Cluster), "static_resources", "clusters")
}
