package shipped

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/fakehost"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/higresshost"
)

const (
	filterOfPlugin = harness.ManagerPath + ".http_filters[name=warmgate]"
	wasmType       = "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm"
	doesNothing    = "type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation"
)

// The files for Istio, in each of which a patch has Envoy get the plugin.
const (
	byEnvoyFilter = "deploy/istio/warmgate.yaml"
	byExtension   = "deploy/istio/traffic-extension.yaml"
)

// discovery returns how Envoy gets the plugin by the patch in a file for Istio.
func discovery(t *testing.T, file string) map[string]any {
	t.Helper()
	for _, doc := range documents(t, harness.ReadT(t, file)) {
		if find[string](t, doc, "kind") != "EnvoyFilter" {
			continue
		}
		for _, p := range find[[]struct {
			Patch struct{ Value map[string]any }
		}](t, doc, "spec.configPatches") {
			if d, ok := p.Patch.Value["config_discovery"].(map[string]any); ok {
				return d
			}
		}
	}
	t.Fatal("no patch gets the plugin")
	return nil
}

// TestFailOpen checks of each gateway that requests pass, balanced natively, while the module cannot be had.
// wasmplugin.Parse checks it of each resource for Higress.
func TestFailOpen(t *testing.T) {
	for name, d := range map[string]map[string]any{
		byEnvoyFilter: discovery(t, byEnvoyFilter),
		byExtension:   discovery(t, byExtension),
		"envoy-config/envoy.yaml": find[map[string]any](t, parse(t, "envoy-config/envoy.yaml"),
			filterOfPlugin+".config_discovery"),
	} {
		types, _ := d["type_urls"].([]any)
		first, _ := d["default_config"].(map[string]any)
		if !slices.Equal(types, []any{wasmType, doesNothing}) || first["@type"] != doesNothing {
			t.Errorf("%s: until the plugin is there, one of %v runs, first %v", name, types, first)
		}
	}
	for _, file := range []string{byEnvoyFilter, byExtension} {
		if discovery(t, file)["apply_default_config_without_warming"] != true {
			t.Errorf("%s: on Istio, the listener waits for the module", file)
		}
	}
	text := harness.ReadT(t, "deploy/envoy-gateway/warmgate.yaml")
	if !find[bool](t, extensionPolicy(t, text), "spec.wasm[0].failOpen") {
		t.Error("on Envoy Gateway, routes whose module cannot be fetched answer 500")
	}
	if strings.Contains(string(text), "failure_policy") {
		t.Error("a patch replaces what failOpen says: Envoy takes only one of the two")
	}
}

// deny is what Istio's agent sends in the plugin's place while it cannot fetch the module.
const deny = `{"@type": type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC, rules: {}}`

// TestDeniedByIstiosAgent gets the plugin as the patch for Istio says, from a file in the place of Istio's agent. A
// filter that denies every request is refused by Envoy: before the first good plugin requests are balanced natively,
// and afterwards that plugin stays.
func TestDeniedByIstiosAgent(t *testing.T) {
	harness.LongT(t)
	upstream := server(t)
	var denied atomic.Bool
	denied.Store(true)
	g := harness.StartT(t, harness.Options{
		Endpoints: []harness.Endpoint{upstream},
		Edit: func(file string, doc *yaml.Node) error {
			switch {
			case file == "envoy.yaml":
				d := discovery(t, byEnvoyFilter)
				d["config_source"] = map[string]any{
					"resource_api_version": "V3", "path_config_source": map[string]any{"path": "./warmgate.yaml"},
				}
				return harness.Set(doc, filterOfPlugin+".config_discovery", d)
			case file == "warmgate.yaml" && denied.Load():
				var filter any
				return errors.Join(yaml.Unmarshal([]byte(deny), &filter),
					harness.Set(doc, "resources[name=warmgate].typed_config", filter))
			}
			return nil
		},
	})
	passes := func(when string) {
		t.Helper()
		if a := harness.Send(t, nil, http.MethodGet, g.URL(), ""); a.Status != http.StatusTeapot {
			t.Errorf("%s: answered %d", when, a.Status)
		}
	}
	passes("before the first good plugin")
	good := pointing(`"admin_cluster":"warmgate-admin"`)
	denied.Store(false)
	if err := g.PushPlugin(t.Context(), good); err != nil {
		t.Fatal(err)
	}
	awaitChosen(t, g)
	denied.Store(true)
	if err := g.PushPlugin(t.Context(), good); err == nil {
		t.Error("Envoy takes a filter that denies every request")
	}
	passes("after it")
	before := g.DecidedT(t, "chosen")
	send(t, g)
	if n := g.DecidedT(t, "chosen") - before; n != 1 {
		t.Errorf("%v of 1 request placed by the plugin that was there before", n)
	}
}

// TestNothingComes gets the plugin as the patch for Istio says, while the agent does not answer, as it does not until a
// fetch has ended: requests pass.
func TestNothingComes(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // connections wait to be accepted
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	host, port, _ := net.SplitHostPort(l.Addr().String())
	agent := fmt.Sprintf(`- name: agent
  type: STATIC
  typed_extension_protocol_options:
    envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
      "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
      explicit_http_config: {http2_protocol_options: {}}
  load_assignment: {cluster_name: agent, endpoints: [{lb_endpoints: [
    {endpoint: {address: {socket_address: {address: %s, port_value: %s}}}}]}]}`, host, port)
	g := harness.StartT(t, harness.Options{
		Endpoints: []harness.Endpoint{server(t)},
		Edit: func(file string, doc *yaml.Node) error {
			if file != "envoy.yaml" {
				return nil
			}
			d := discovery(t, byEnvoyFilter)
			source := d["config_source"].(map[string]any)
			delete(source, "ads") // of a stream of its own, for this test
			source["api_config_source"] = map[string]any{
				"api_type": "GRPC", "transport_api_version": "V3", "grpc_services": []any{
					map[string]any{"envoy_grpc": map[string]any{"cluster_name": "agent"}},
				},
			}
			return errors.Join(harness.Set(doc, filterOfPlugin+".config_discovery", d),
				harness.Insert(doc, "static_resources.clusters", "", 0, agent))
		},
	})
	if a := harness.Send(t, nil, http.MethodGet, g.URL(), ""); a.Status != http.StatusTeapot {
		t.Errorf("answered %d", a.Status)
	}
}

// TestUnnamedService sends a request to a service that nobody has named through each resource for Higress: the body is
// not read, so the request is not held for it, and nothing is counted but that no rule was for it.
func TestUnnamedService(t *testing.T) {
	module := harness.ModuleT(t, harness.HostHigress)
	const cluster = "outbound|80||shop.dns"
	for _, file := range copies(t) {
		if !strings.Contains(file.name, "igress") {
			continue
		}
		t.Run(file.name, func(t *testing.T) {
			raw := file.read(t, harness.ReadT(t, file.name))
			gw := higresshost.Start(t, higresshost.Options{Wasm: module, Config: string(raw), Cluster: cluster})
			gw.Cluster(cluster).Add("10.0.0.1:80")
			gw.Advance(2 * time.Second)
			s := gw.Worker(0).NewStream().To("shop", cluster)
			const body = `{"model":"m","prompt":"Hello, my dear."}`
			s.RequestHeaders(fakehost.H(":method", http.MethodPost, ":path", "/v1/chat/completions", ":authority",
				"shop.test", "content-type", "application/json", "content-length", strconv.Itoa(len(body))), false)
			if !s.OnUpstream {
				t.Error("the request is held")
			}
			s.RequestBody([]byte(body), true)
			gw.Advance(2 * time.Second)
			for _, name := range gw.Metrics().Names() {
				if strings.Contains(name, "cluster="+cluster) {
					t.Errorf("there is %s", name)
				}
			}
			s.Respond(http.StatusOK, "{}")
			const stat = "warmgate_decisions_total;policy=none;reason=no_rule"
			if n := gw.Metrics().Counter(stat); n != 1 {
				t.Error(fmt.Sprint(n, " times ", stat, ": ", gw.Metrics().Names()))
			}
		})
	}
}

// TestDeadVMPasses ends the VM of a gateway that is configured as Envoy Gateway does it by failOpen: requests pass
// without the plugin, that one, too, warmgate_owners shows it, and the next configuration brings the plugin back.
func TestDeadVMPasses(t *testing.T) {
	harness.LongT(t)
	module, err := harness.Wasm(t.Context(), harness.HostEnvoyChaos)
	if err != nil {
		t.Fatal(err)
	}
	const config = "resources[name=warmgate].typed_config.config"
	g := harness.StartT(t, harness.Options{
		Workers: 1, Module: module, Endpoints: []harness.Endpoint{server(t)},
		Edit: func(file string, doc *yaml.Node) error {
			if file != "warmgate.yaml" {
				return nil
			}
			return errors.Join(harness.Remove(doc, config+".failure_policy"),
				harness.Remove(doc, config+".reload_config"), harness.Set(doc, config+".fail_open", true))
		},
	})
	awaitChosen(t, g)
	before := g.DecidedT(t, "chosen")
	for range 10 { // the first ends the VM
		a := harness.Send(t, nil, http.MethodGet, g.URL(), "", "x-warmgate-chaos: stack")
		if a.Status != http.StatusTeapot {
			t.Errorf("answered %d", a.Status)
		}
	}
	if n := g.DecidedT(t, "chosen") - before; n != 0 {
		t.Errorf("%v requests placed by a dead VM", n)
	}
	await(t, "the Prometheus page", regexp.MustCompile(`(?m)^warmgate_owners\{.*\} 0$`),
		func() string { return g.PrometheusT(t) })
	if err := g.PushPlugin(t.Context(), pointing(`"admin_cluster":"warmgate-admin"`)); err != nil {
		t.Fatal(err)
	}
	harness.Await(t, func() error {
		if send(t, g); g.DecidedT(t, "chosen") == before {
			return errors.New("the plugin does not come back")
		}
		return nil
	})
}
