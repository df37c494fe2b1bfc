package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
)

// TestEnvoyLoadsImages pushes the images to a registry, fetches both forms by the rules of each gateway and has a real
// Envoy load what came, from a file, as Istio's agent hands it over. What all of them fetch is the same, so Envoy loads
// each form once.
func TestEnvoyLoadsImages(t *testing.T) {
	a := packedT(t)[0]
	address := registryT(t)
	if err := push(t.Context(), address, []*artifact{a}); err != nil {
		t.Fatal(err)
	}
	for i := range a.images {
		tag := a.images[i].tag
		t.Run(tag, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "fetched.wasm")
			for _, f := range fetchers {
				module, err := f.fetch(t.Context(), "oci://"+address+"/"+a.name+":"+tag, "")
				if err != nil {
					t.Fatal(err)
				}
				if before, err := os.ReadFile(file); err == nil && string(before) != string(module) {
					t.Errorf("%s fetches something else than the others", f.gateway)
				}
				if err := os.WriteFile(file, module, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			g := harness.StartT(t, harness.Options{Module: file, Config: visible, Endpoints: harness.Models(t, 2)})
			harness.AwaitReason(t, g.URL(), "chosen")
		})
	}
}

// visible is a configuration under which answers tell the reason of a choice.
const visible = `{"lb_policy":"global_least_request","lb_config":{"debug_headers":true,` +
	`"envoy":{"admin_cluster":"warmgate-admin"}}}`

// documentedT returns what docs/artifacts.md shows as vm_config.code.
func documentedT(t *testing.T) *yaml.Node {
	t.Helper()
	_, rest, _ := strings.Cut(string(harness.ReadT(t, "docs/artifacts.md")), "```yaml\n")
	block, _, _ := strings.Cut(rest, "```")
	doc := new(yaml.Node)
	if err := yaml.Unmarshal([]byte(block), doc); err != nil {
		t.Fatal(err)
	}
	code, err := harness.Find(doc, "config.vm_config.code")
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// TestEnvoyLoadsByHTTP serves the module by HTTP and has a real Envoy fetch it, configured as docs/artifacts.md shows,
// but for the address and the checksum. Under the shipped limit the answer is too long, and requests fail.
func TestEnvoyLoadsByHTTP(t *testing.T) {
	a := packedT(t)[0]
	server := harness.ServeT(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(a.module) }))
	host, port, err := net.SplitHostPort(server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	cluster := fmt.Sprintf(`- name: warmgate-module
  type: STATIC
  load_assignment: {cluster_name: warmgate-module, endpoints: [{lb_endpoints: [
    {endpoint: {address: {socket_address: {address: %s, port_value: %s}}}}]}]}`, host, port)
	const (
		vmPath    = "resources[name=warmgate].typed_config.config.vm_config"
		layerPath = "layered_runtime.layers[name=static].static_layer"
	)
	edit := func(limit int) func(file string, doc *yaml.Node) error {
		return func(file string, doc *yaml.Node) error {
			switch file {
			case "envoy.yaml":
				return errors.Join(
					harness.Set(doc, layerPath, map[string]int{"http.async_response_buffer_limit": limit}),
					harness.Insert(doc, "static_resources.clusters", "", 0, cluster))
			case "warmgate.yaml":
				code := documentedT(t)
				return errors.Join(
					harness.Set(code, "remote.sha256", fmt.Sprintf("%x", sha256.Sum256(a.module))),
					harness.Set(code, "remote.http_uri.uri", "http://"+server.Addr+"/warmgate-envoy.wasm"),
					harness.Set(doc, vmPath+".code", code))
			}
			return nil
		}
	}
	models := harness.Models(t, 2)
	t.Run("4 MiB", func(t *testing.T) {
		g := harness.StartT(t, harness.Options{Config: visible, Endpoints: models, Edit: edit(4 << 20)})
		a := harness.Send(t, nil, http.MethodGet, g.URL()+"/v1/models", "")
		if a.Status != http.StatusServiceUnavailable {
			t.Errorf("answered %d: %s", a.Status, a.Body)
		}
		harness.Await(t, func() error {
			if log := g.AccessLog(); !strings.Contains(log, " details=wasm_fail_stream ") {
				return fmt.Errorf("the access log does not say why:\n%s", log)
			}
			return nil
		})
	})
	t.Run("8 MiB", func(t *testing.T) {
		g := harness.StartT(t, harness.Options{Config: visible, Endpoints: models, Edit: edit(8 << 20)})
		harness.AwaitReason(t, g.URL(), "chosen")
	})
}
