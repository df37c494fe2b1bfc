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

// documentedT returns what docs/artifacts.md shows as the plugin's config.
func documentedT(t *testing.T) *yaml.Node {
	t.Helper()
	_, rest, _ := strings.Cut(string(harness.ReadT(t, "docs/artifacts.md")), "```yaml\n")
	block, _, _ := strings.Cut(rest, "```")
	doc := new(yaml.Node)
	if err := yaml.Unmarshal([]byte(block), doc); err != nil {
		t.Fatal(err)
	}
	config, err := harness.Find(doc, "config")
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// byHTTP returns options of a gateway that fetches its module from a web server, configured as docs/artifacts.md shows,
// but for the address and the checksum, and with a limit of answers.
func byHTTP(t *testing.T, server harness.Endpoint, sum [sha256.Size]byte, limit int) harness.Options {
	t.Helper()
	host, port, err := net.SplitHostPort(server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	cluster := fmt.Sprintf(`- name: warmgate-module
  type: STATIC
  load_assignment: {cluster_name: warmgate-module, endpoints: [{lb_endpoints: [
    {endpoint: {address: {socket_address: {address: %s, port_value: %s}}}}]}]}`, host, port)
	const (
		configPath = "resources[name=warmgate].typed_config.config."
		layerPath  = "layered_runtime.layers[name=static].static_layer"
		remote     = "vm_config.code.remote."
	)
	edit := func(file string, doc *yaml.Node) error {
		switch file {
		case "envoy.yaml":
			return errors.Join(
				harness.Set(doc, layerPath, map[string]int{"http.async_response_buffer_limit": limit}),
				harness.Insert(doc, "static_resources.clusters", "", 0, cluster))
		case "warmgate.yaml":
			config := documentedT(t)
			err := errors.Join(harness.Set(config, remote+"sha256", fmt.Sprintf("%x", sum)),
				harness.Set(config, remote+"http_uri.uri", "http://"+server.Addr+"/warmgate-envoy.wasm"))
			for _, path := range []string{"vm_config.code", "failure_policy"} {
				value, e := harness.Find(config, path)
				err = errors.Join(err, e, harness.Set(doc, configPath+path, value))
			}
			return err
		}
		return nil
	}
	return harness.Options{Config: visible, Endpoints: harness.Models(t, 2), Edit: edit}
}

// TestEnvoyLoadsByHTTP serves the module by HTTP and has a real Envoy fetch it. Whatever becomes of that, requests
// pass: by the plugin if it is there, natively if not.
func TestEnvoyLoadsByHTTP(t *testing.T) {
	module := packedT(t)[0].module
	whole := func(w http.ResponseWriter, _ *http.Request) { w.Write(module) }
	empty := func(http.ResponseWriter, *http.Request) {}
	never := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	const shipped, raised = 4 << 20, 8 << 20
	for name, c := range map[string]struct {
		serve http.HandlerFunc
		of    []byte // what has the checksum
		limit int
		there bool
	}{
		"served":            {whole, module, raised, true},
		"too large":         {whole, module, shipped, false},
		"of a wrong digest": {whole, nil, raised, false},
		"not there":         {http.NotFound, module, raised, false},
		"empty":             {empty, nil, raised, false},
		"never answered":    {never, module, raised, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := harness.StartT(t, byHTTP(t, harness.ServeT(t, c.serve), sha256.Sum256(c.of), c.limit))
			if c.there {
				harness.AwaitReason(t, g.URL(), "chosen")
				return
			}
			for range 10 {
				if a := harness.Get(t, g.URL()+"/v1/models"); a.Status != http.StatusOK || a.Reason() != "" {
					t.Fatalf("answered %d by the plugin's reason %q", a.Status, a.Reason())
				}
			}
		})
	}
}
