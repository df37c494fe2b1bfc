package fault

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

// TestListeners sends requests through listeners that differ from the shipped one, all of one Envoy.
func TestListeners(t *testing.T) {
	for _, version := range []string{harness.DefaultVersion, harness.OldestVersion} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			g := harness.StartT(t, harness.Options{
				Version: version, Endpoints: namedFleet(t, 3), Config: config(),
				Edit: withListeners(map[string]func(*yaml.Node) error{
					"forwards 100": func(listener *yaml.Node) error {
						return harness.Set(listener, manager+".proxy_100_continue", true)
					},
					"twice": pluginTwice, "limit in front": limited(0), "limit behind": limited(1),
				}),
			})
			harness.AwaitReason(t, g.URL(), "chosen")
			t.Run("the plugin twice", func(t *testing.T) { sendThroughTwo(t, g) })
			t.Run("Expect", func(t *testing.T) { sendOnRequest(t, g) })
			t.Run("limits", func(t *testing.T) { sendToLimits(t, g) })
			g.DrainedT(t)
		})
	}
}

// namedFleet starts n servers that answer with their number, and redirect from /moved.
func namedFleet(t *testing.T, n int) []harness.Endpoint {
	t.Helper()
	var list []harness.Endpoint
	for i := range n {
		sim := vllmsim.New(vllmsim.Config{Index: i, Instant: true})
		list = append(list, harness.ServeT(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("x-served-by", fmt.Sprint(r.Context().Value(http.LocalAddrContextKey)))
			if r.URL.Path == "/moved" {
				http.Redirect(w, r, "http://"+r.Host+"/v1/models", http.StatusFound)
				return
			}
			sim.ServeHTTP(w, r)
		})))
	}
	return list
}

// Paths inside a listener.
const (
	manager     = "filter_chains[0].filters[0].typed_config"
	httpFilters = manager + ".http_filters"
)

// withListeners adds listeners by name: each a copy of main that an edit changes, on a port of the kernel's choice.
func withListeners(edits map[string]func(listener *yaml.Node) error) func(file string, doc *yaml.Node) error {
	return harness.OfFile("envoy.yaml", func(doc *yaml.Node) error {
		main, err := harness.Find(doc, "static_resources.listeners[name=main]")
		if err != nil {
			return err
		}
		text, err := yaml.Marshal(main)
		if err != nil {
			return err
		}
		listeners, err := harness.Find(doc, "static_resources.listeners")
		if err != nil {
			return err
		}
		for name, edit := range edits {
			var other yaml.Node
			if err := errors.Join(
				yaml.Unmarshal(text, &other),
				harness.Set(&other, "name", name),
				edit(&other),
			); err != nil {
				return err
			}
			listeners.Content = append(listeners.Content, other.Content[0])
		}
		return nil
	})
}

// listenerURL returns where the listener of that name is.
func listenerURL(t *testing.T, g *harness.Gateway, name string) string {
	t.Helper()
	addr, err := g.Listener(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return "http://" + addr
}
