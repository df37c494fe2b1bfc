package istio

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"istio.io/istio/pilot/pkg/model"
	"istio.io/istio/pilot/test/xds"
	"istio.io/istio/pkg/bootstrap"
	"istio.io/istio/pkg/config/mesh"
	node "istio.io/istio/pkg/model"
	"istio.io/istio/pkg/test/env"
	"istio.io/istio/pkg/wasm"
	"sigs.k8s.io/yaml"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/mesh/lab"
)

// service returns the service of the model servers. These differ in their ports, so each needs a list of endpoints of
// its own.
func service(t *testing.T, servers []*lab.Server) string {
	t.Helper()
	text := `
apiVersion: v1
kind: Service
metadata: {name: vllm, namespace: default}
spec:
  clusterIP: 10.96.0.10
  ports: [{name: http, port: 8000, protocol: TCP}]
`
	for i, s := range servers {
		host, port, err := net.SplitHostPort(s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		text += fmt.Sprintf(`---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: vllm-%d, namespace: default, labels: {kubernetes.io/service-name: vllm}}
addressType: IPv4
endpoints: [{addresses: [%s], conditions: {ready: true}}]
ports: [{name: http, port: %s, protocol: TCP}]
`, i, host, port)
	}
	return text
}

// istiod makes the configuration of a gateway of the text of resources, whose route leads to the servers, from a port
// of 127.0.0.1.
func istiod(t *testing.T, port string, servers []*lab.Server, texts ...string) *lab.Resources {
	t.Helper()
	return resourcesOf(t, port, service(t, servers), texts...)
}

// resourcesOf is istiod with Kubernetes objects.
func resourcesOf(t *testing.T, port, objects string, texts ...string) *lab.Resources {
	t.Helper()
	all := with(t, strings.Join(texts, "\n---\n"),
		"port: {number: 80,", "bind: 127.0.0.1\n    port: {number: "+port+",")
	server, proxy := discovery(t, all, objects)
	out := new(lab.Resources)
	listeners := server.Listeners(proxy)
	for _, l := range listeners {
		out.Listeners = append(out.Listeners, message(t, l))
	}
	for _, c := range server.Clusters(proxy) {
		out.Clusters = append(out.Clusters, message(t, c))
	}
	for _, r := range server.RoutesFromListeners(proxy, listeners) {
		out.Routes = append(out.Routes, message(t, r))
	}
	for _, e := range server.Endpoints(proxy) {
		out.Endpoints = append(out.Endpoints, message(t, e))
	}
	for _, x := range fetched(t, extensions(server, proxy, nil)) {
		out.Extensions = append(out.Extensions, message(t, x))
	}
	return out
}

// discovery is the discovery server with the text of resources and of Kubernetes objects, and a gateway.
func discovery(t *testing.T, text, objects string) (*xds.FakeDiscoveryServer, *model.Proxy) {
	t.Helper()
	settings := mesh.DefaultMeshConfig()
	settings.EnableAutoMtls = wrapperspb.Bool(false) // there is no authority that certifies
	server := xds.NewFakeDiscoveryServer(t, xds.FakeOptions{
		ConfigString: text, KubernetesObjectString: objects, MeshConfig: settings,
	})
	labels := map[string]string{"istio": "ingressgateway"}
	return server, server.SetupProxy(&model.Proxy{
		Type: model.Router, ConfigNamespace: "istio-system", Labels: labels, IPAddresses: []string{"127.0.0.1"},
		Metadata: &model.NodeMetadata{Namespace: "istio-system", Labels: labels, IstioVersion: "1.31.0"},
	})
}

// extensions are those that a gateway with one of the files requests, with the pull secrets that there are.
func extensions(server *xds.FakeDiscoveryServer, proxy *model.Proxy, secrets map[string][]byte,
) []*core.TypedExtensionConfig {
	return server.ConfigGen.BuildExtensionConfiguration(proxy, server.PushContext(), []string{"warmgate", extension},
		secrets)
}

// fetched does what Istio's agent does with extensions on their way to Envoy: it fetches modules, and puts files in the
// place of images.
func fetched(t *testing.T, list []*core.TypedExtensionConfig) []*core.TypedExtensionConfig {
	t.Helper()
	if len(list) != 1 {
		t.Fatalf("%d extensions", len(list))
	}
	cache := wasm.NewLocalFileCache(t.TempDir(), wasm.Options{})
	t.Cleanup(cache.Cleanup)
	packed, err := anypb.New(list[0])
	if err != nil {
		t.Fatal(err)
	}
	all := []*anypb.Any{packed}
	if err := wasm.MaybeConvertWasmExtensionConfig(all, cache); err != nil {
		t.Fatal(err)
	}
	out := new(core.TypedExtensionConfig)
	if err := all[0].UnmarshalTo(out); err != nil {
		t.Fatal(err)
	}
	return []*core.TypedExtensionConfig{out}
}

// message returns a message of Envoy's API as JSON, with its type.
func message(t *testing.T, m proto.Message) map[string]any {
	t.Helper()
	text, err := protojson.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	out["@type"] = "type.googleapis.com/" + string(m.ProtoReflect().Descriptor().FullName())
	return out
}

// bootstrapOf makes the bootstrap of a gateway as Istio's agent does, with the settings of the document, and the admin
// interface at an address.
func bootstrapOf(t *testing.T, where string) map[string]any {
	t.Helper()
	_, port, err := net.SplitHostPort(where)
	if err != nil {
		t.Fatal(err)
	}
	proxy := mesh.DefaultProxyConfig()
	if _, err := fmt.Sscan(port, &proxy.ProxyAdminPort); err != nil {
		t.Fatal(err)
	}
	var values struct {
		Mesh struct {
			Proxy struct{ ExtraStatTags []string } `json:"defaultConfig"`
		} `json:"meshConfig"`
	}
	if err := yaml.UnmarshalStrict([]byte(lab.Block(t, document, "yaml", "    extraStatTags:")), &values); err != nil {
		t.Fatal(err)
	}
	proxy.ExtraStatTags = values.Mesh.Proxy.ExtraStatTags
	instance := bootstrap.New(bootstrap.Config{Node: &node.Node{
		ID: "router~127.0.0.1~gateway.istio-system~istio-system.svc.cluster.local",
		Metadata: &node.BootstrapNodeMetadata{NodeMetadata: node.NodeMetadata{
			ProxyConfig: (*node.NodeMetaProxyConfig)(proxy), InstanceIPs: []string{"127.0.0.1"},
			EnvoyPrometheusPort: 15090, EnvoyStatusPort: 15021,
		}},
		RawMetadata: map[string]any{}, Locality: &core.Locality{},
	}})
	var text bytes.Buffer
	if err := instance.WriteTo(filepath.Join(env.IstioSrc, "tools/packaging/common/envoy_bootstrap.json"),
		&text); err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(text.Bytes(), &out); err != nil {
		t.Fatalf("%v\n%s", err, text.String())
	}
	return out
}

// own are the filters that only Istio's build of Envoy knows, by where they are.
var own = map[string][]string{
	"httpFilters": {"istio.alpn", "istio.metadata_exchange"}, // of a listener
	"filters":     {"istio.metadata_exchange"},               // of a cluster
}

// onStock leaves out what only Istio's own build of Envoy knows, and what listens at fixed ports.
func onStock(t *testing.T, boot map[string]any, r *lab.Resources) {
	t.Helper()
	static := boot["static_resources"].(map[string]any)
	static["listeners"] = []any{}
	delete(boot["admin"].(map[string]any), "profile_path")
	for _, resource := range slices.Concat(r.Listeners, r.Clusters) {
		withoutOwn(resource)
	}
}

// withoutOwn leaves out filters of Istio's own, at any depth.
func withoutOwn(value any) {
	switch value := value.(type) {
	case map[string]any:
		for key, names := range own {
			if list, ok := value[key].([]any); ok {
				value[key] = slices.DeleteFunc(list, func(filter any) bool {
					name, _ := filter.(map[string]any)["name"].(string)
					return slices.Contains(names, name)
				})
			}
		}
		for _, v := range value {
			withoutOwn(v)
		}
	case []any:
		for _, v := range value {
			withoutOwn(v)
		}
	}
}

// controlledGateway is a gateway, and the name of its listener.
type controlledGateway struct {
	lab.Gateway
	name string
	// apply replaces the text of resources.
	apply func(text string)
}

// controlled runs a gateway of the text of resources on a release of Envoy, in front of three servers.
func controlled(t *testing.T, version string, texts ...string) *controlledGateway {
	t.Helper()
	return controlledBy(t, version, istiod, texts...)
}

// controlledBy is controlled with another maker of the configuration than istiod.
func controlledBy(t *testing.T, version string,
	istiod func(t *testing.T, port string, servers []*lab.Server, texts ...string) *lab.Resources, texts ...string,
) *controlledGateway {
	t.Helper()
	servers := lab.Servers(t, 3)
	port, dir := harness.FreePortT(t), t.TempDir()
	at := "127.0.0.1:" + harness.FreePortT(t)
	boot := bootstrapOf(t, at)
	resources := func(folder string, texts ...string) map[string]any {
		list := istiod(t, port, servers, texts...)
		onStock(t, boot, list)
		dynamic, err := list.WriteTo(folder)
		if err != nil {
			t.Fatal(err)
		}
		return dynamic
	}
	boot["dynamic_resources"] = resources(dir, texts...)
	text, err := json.Marshal(boot)
	if err != nil {
		t.Fatal(err)
	}
	envoy := lab.Start(t, lab.Process{Version: version, Dir: dir, Bootstrap: text, Admin: at})
	return &controlledGateway{lab.Gateway{
		Envoy: envoy, URL: "http://127.0.0.1:" + port, Host: host, Servers: servers, Hides: true,
	}, envoy.Listener(t, port), func(text string) {
		next := t.TempDir()
		resources(next, text)
		files, err := os.ReadDir(next)
		for _, file := range files {
			err = errors.Join(err, os.Rename(filepath.Join(next, file.Name()), filepath.Join(dir, file.Name())))
		}
		if err != nil {
			t.Fatal(err)
		}
	}}
}
