package envoygateway

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/child"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/mesh/lab"
	"github.com/warmgate/warmgate/e2e/redisserver"
)

// controlPlane is Envoy Gateway without Kubernetes: it reads resources from a folder, fetches the module, and serves
// the configuration of Envoy on its usual ports, 18000 and 18002. It would also run an Envoy, but in the place of that
// there is a program that writes down how it was started.
type controlPlane struct {
	dir string
	log string
}

// How Envoy Gateway finds the program: as a version of Envoy that was fetched before.
const (
	envoyVersion = "1.40.0"
	program      = "data/envoy-versions/" + envoyVersion + "/bin/envoy"
	instead      = "#!/bin/sh\nprintf '%s\\n---next---\\n' \"$@\" >\"$0.args.new\"\nmv \"$0.args.new\" \"$0.args\"\n" +
		"exec tail --pid=$PPID -f /dev/null\n"
)

// startControlPlane starts Envoy Gateway with resources, until the test ends. Its configuration is that of the
// document.
func startControlPlane(t *testing.T, dir string, list []resource) *controlPlane {
	t.Helper()
	p := &controlPlane{dir: dir, log: filepath.Join(dir, "envoy-gateway.log")}
	for _, port := range []string{"18000", "18002"} {
		l, err := net.Listen("tcp", ":"+port)
		if err != nil {
			t.Fatalf("Envoy Gateway serves at fixed ports, of which one is not free: %v", err)
		}
		l.Close()
	}
	binary := command(t, "envoy-gateway")
	certgen := exec.Command(binary, "certgen", "--local", "--config-home", p.path("config"))
	if out, err := certgen.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	write(t, p.path("resources/all.yaml"), append(list, p.clientCertificate(t)))
	if err := os.WriteFile(p.path(program), []byte(instead), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, p.path("config.yaml"), []resource{p.config(t)})
	log, err := os.Create(p.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(binary, "server", "--config-path", p.path("config.yaml"))
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	process, err := child.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := process.Kill(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			text := p.logged()
			t.Logf("Envoy Gateway's log ends:\n%s", text[max(0, len(text)-6000):])
		}
	})
	return p
}

// path returns a path below the folder, and makes the folders that it needs.
func (p *controlPlane) path(name string) string {
	file := filepath.Join(p.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		panic(err)
	}
	return file
}

func (p *controlPlane) logged() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// clientCertificate is what the installation of Envoy Gateway puts into a secret: by it Envoy fetches the module.
func (p *controlPlane) clientCertificate(t *testing.T) resource {
	t.Helper()
	data := map[string]any{}
	for _, name := range []string{"ca.crt", "tls.crt", "tls.key"} {
		text, err := os.ReadFile(p.path("config/certs/envoy/" + name))
		if err != nil {
			t.Fatal(err)
		}
		data[name] = base64.StdEncoding.EncodeToString(text)
	}
	return resource{
		"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "data": data,
		"metadata": map[string]any{"name": "envoy", "namespace": "envoy-gateway-system"},
	}
}

// config returns the configuration in the document, and how to run without Kubernetes.
func (p *controlPlane) config(t *testing.T) resource {
	t.Helper()
	var config resource
	for _, block := range blocks(t, "yaml") {
		if strings.Contains(block, "kind: EnvoyGateway\n") {
			config = parse(t, block)[0]
		}
	}
	if config == nil {
		t.Fatal("the document has no configuration of Envoy Gateway")
	}
	folders := map[string]any{}
	for key, name := range map[string]string{
		"configHome": "config", "dataHome": "data", "stateHome": "state", "runtimeDir": "run",
	} {
		folders[key] = filepath.Join(p.dir, name)
	}
	config["provider"] = map[string]any{"type": "Custom", "custom": map[string]any{
		"infrastructure": map[string]any{"type": "Host", "host": folders},
		"resource": map[string]any{
			"type": "File", "file": map[string]any{"paths": []string{p.path("resources")}},
		},
	}}
	config["telemetry"] = map[string]any{"metrics": map[string]any{"prometheus": map[string]any{"disable": true}}}
	port, err := strconv.Atoi(harness.FreePortT(t))
	if err != nil {
		t.Fatal(err)
	}
	config["admin"] = map[string]any{"address": map[string]any{"host": "127.0.0.1", "port": port}}
	at(t, config, "extensionApis").(map[string]any)["enableBackend"] = true // there are no services without Kubernetes
	return config
}

// envoyArgs waits until Envoy Gateway starts Envoy, and returns the arguments.
func (p *controlPlane) envoyArgs(t *testing.T) []string {
	t.Helper()
	var text []byte
	harness.Await(t, func() (err error) {
		text, err = os.ReadFile(p.path(program) + ".args")
		return err
	})
	return strings.Split(strings.TrimSuffix(string(text), "\n---next---\n"), "\n---next---\n")
}

// onHost changes resources so that they are about this machine: the Gateway has a port of its own, on 127.0.0.1; the
// model servers are named by address; the module comes from a registry of the test.
func onHost(t *testing.T, list []resource, port, image string, servers []*lab.Server) []resource {
	t.Helper()
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	set(t, find(t, list, "Gateway"), number, "spec", "listeners", 0, "port")
	set(t, find(t, list, "EnvoyProxy"), map[string]any{
		"type": "Host", "host": map[string]any{"envoyVersion": envoyVersion},
	}, "spec", "provider")
	set(t, find(t, list, "HTTPRoute"), []any{map[string]any{
		"group": "gateway.envoyproxy.io", "kind": "Backend", "name": "vllm",
	}}, "spec", "rules", 0, "backendRefs")
	set(t, find(t, list, "EnvoyExtensionPolicy"), image, "spec", "wasm", 0, "code", "image", "url")
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

// TestControlPlane has Envoy Gateway fetch the module and serve the configuration that it makes of the shipped
// resources, to a real Envoy.
func TestControlPlane(t *testing.T) {
	gateway := controlled(t, shipped(t))
	inOrder(t, gateway.Filters(t, listener), "envoy.filters.http.wasm", "envoy.filters.http.stateful_session")
	gateway.Check(t)
}

// TestMetrics does the same with the cluster for the metrics of the model servers.
func TestMetrics(t *testing.T) {
	list := shipped(t)
	config := at(t, find(t, list, "EnvoyExtensionPolicy"), "spec", "wasm", 0, "config").(map[string]any)
	config["lb_policy"] = "endpoint_metrics"
	set(t, config, "warmgate-metrics", "lb_config", "envoy", "metrics_cluster")
	gateway := controlled(t, append(list, read(t, "metrics.yaml")...))
	gateway.Scraped(t)
}

// TestRedis does the same with the way to a Redis server, which is that of stock Envoy.
func TestRedis(t *testing.T) {
	redis := redisserver.StartT(t, redisserver.Options{})
	tunnel := read(t, "redis.yaml")
	var have []any
	for _, patch := range at(t, tunnel[0], "spec", "jsonPatches").([]any) {
		have = append(have, at(t, patch, "operation", "value"))
	}
	lab.IsTunnel(t, "deploy/envoy-gateway/redis.yaml", have)
	for _, value := range have {
		if value := value.(map[string]any); value["name"] == "warmgate-redis-server" {
			address := at(t, value, "load_assignment", "endpoints", 0, "lb_endpoints", 0, "endpoint", "address")
			set(t, address, map[string]any{"address": "127.0.0.1", "port_value": redis.Port()}, "socket_address")
		}
	}
	list := append(shipped(t), tunnel...)
	config := at(t, find(t, list, "EnvoyExtensionPolicy"), "spec", "wasm", 0, "config").(map[string]any)
	set(t, config, "warmgate-redis", "lb_config", "envoy", "redis_cluster")
	gateway := controlled(t, list)
	gateway.Shared(t)
}

// shipped returns the resources of a gateway, as they are shipped.
func shipped(t *testing.T) []resource {
	t.Helper()
	return append(append(read(t, "gateway.yaml"), read(t, "route.yaml")...), read(t, "warmgate.yaml")...)
}

// listener is the name of the gateway's listener in Envoy.
const listener = "default/eg/http"

// controlled runs a gateway of resources: the control plane, Envoy and three servers.
func controlled(t *testing.T, list []resource) *lab.Gateway {
	t.Helper()
	servers := lab.Servers(t, 3)
	dir, port := t.TempDir(), harness.FreePortT(t)
	list = onHost(t, list, port, pushed(t), servers)
	plane := startControlPlane(t, dir, append(list, machine(filepath.Join(dir, "config/certs/envoy/ca.crt"))))

	var bootstrap map[string]any
	var args []string
	given := plane.envoyArgs(t)
	for i := 0; i+1 < len(given); i++ {
		switch given[i] {
		case "--config-yaml":
			if err := yaml.Unmarshal([]byte(given[i+1]), &bootstrap); err != nil {
				t.Fatal(err)
			}
		case "--service-cluster", "--service-node", "--service-zone":
			args = append(args, given[i], given[i+1])
		}
	}
	if bootstrap == nil {
		t.Fatalf("started with %q", given)
	}
	admin := "127.0.0.1:" + harness.FreePortT(t)
	withAdmin(t, bootstrap, admin)
	var text bytes.Buffer
	if err := yaml.NewEncoder(&text).Encode(bootstrap); err != nil {
		t.Fatal(err)
	}
	envoy := lab.Start(t, dir, text.Bytes(), admin, args...)
	if name := envoy.Listener(t, port); name != listener {
		t.Fatalf("the listener is called %s", name)
	}
	return &lab.Gateway{Envoy: envoy, URL: "http://127.0.0.1:" + port, Servers: servers}
}

// inOrder checks that the filters around the plugin, the last ones in front of the router, are in order, and how the
// plugin is run.
func inOrder(t *testing.T, filters []map[string]any, plugin, session string) {
	t.Helper()
	last := filters[max(0, len(filters)-4):]
	for i, prefix := range []string{"warmgate-strip-client", plugin, session, "envoy.filters.http.router"} {
		if i >= len(last) || !strings.HasPrefix(last[i]["name"].(string), prefix) {
			t.Fatalf("the last filters are %v", last)
		}
	}
	config := at(t, last[1], "typed_config", "config").(map[string]any)
	limit := at(t, config, "vm_config", "environment_variables", "key_values", "GOMEMLIMIT")
	if config["failure_policy"] != "FAIL_RELOAD" || config["allow_on_headers_stop_iteration"] != true ||
		limit != "48MiB" {
		t.Errorf("the plugin is run with %v", config)
	}
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
