package regions

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
)

// early adds the removal of the header of clients, as docs/regions.md says, to other edits: for stock Envoy, or as it
// is for Higress, with the route.
func early(t *testing.T, higress bool, more func(file string, doc *yaml.Node) error) func(string, *yaml.Node) error {
	var parts struct {
		Early yaml.Node `yaml:"early_header_mutation_extensions"`
	}
	if err := yaml.Unmarshal(harness.ReadT(t, "envoy-config/regions.yaml"), &parts); err != nil {
		t.Fatal(err)
	}
	return func(file string, doc *yaml.Node) error {
		if err := more(file, doc); err != nil || file != "envoy.yaml" {
			return err
		}
		if higress {
			return routeInHigress(t, doc)
		}
		return harness.Set(doc, harness.ManagerPath+".early_header_mutation_extensions", &parts.Early)
	}
}

// servedAtHome has clients name clusters in the header by which the route takes one.
func servedAtHome(t *testing.T, g *harness.Gateway, what string) {
	t.Helper()
	for _, name := range []string{"to-other", "warmgate-admin", "nowhere", "llm", ""} {
		a := harness.Send(t, nil, http.MethodGet, g.URL()+path, "", "x-higress-target-cluster: "+name,
			"x-warmgate-hop: 1hZm9yZ2Vk")
		if a.Status != http.StatusOK || a.Header.Get("x-server") != "us" {
			t.Errorf("%s, %q: %d from %q", what, name, a.Status, a.Header.Get("x-server"))
		}
	}
}

// A client that names the cluster of another region is served at home, by the plugin's routes: while the plugin is on,
// in shadow, switched off or not there, or cannot be loaded.
func TestForgedRegion(t *testing.T) {
	away := harness.ServeT(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("x-server", "another region")
	}))
	_, peer, err := net.SplitHostPort(away.Addr)
	if err != nil {
		t.Fatal(err)
	}
	module := filepath.Join(t.TempDir(), "module.wasm")
	if err := os.WriteFile(module, []byte("no module"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		version string
		higress bool
	}{{harness.DefaultVersion, false}, {harness.DefaultVersion, true}, {harness.OldestVersion, false}} {
		version := c.version
		p := &place{hops: make(chan string, 100)}
		home := harness.ServeT(t, p.server("us"))
		o := harness.Options{
			Version: version, Endpoints: []harness.Endpoint{home}, Config: regionConfig("us", "eu", ""),
			Edit: early(t, c.higress, edits(peer, harness.FreePortT(t))),
		}
		g := harness.StartT(t, o)
		harness.AwaitReason(t, g.URL()+path, "chosen")
		servedAtHome(t, g, version+" on")
		if len(p.hops) > 0 {
			t.Errorf("%s: the server got the hop %q", version, <-p.hops)
		}
		for _, config := range []string{regionConfig("us", "eu", `"shadow":true,`), `{"enabled":false}`} {
			if err := g.PushPlugin(t.Context(), config); err != nil {
				t.Fatal(err)
			}
			servedAtHome(t, g, version+" "+config)
		}
		if err := g.PushNoPlugin(t.Context()); err != nil {
			t.Fatal(err)
		}
		servedAtHome(t, g, version+" no plugin")
		o.Module, o.Edit = module, early(t, c.higress, edits(peer, harness.FreePortT(t)))
		servedAtHome(t, harness.StartT(t, o), version+" no module")
	}
}
