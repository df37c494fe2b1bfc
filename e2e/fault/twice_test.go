package fault

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
)

const httpFilters = "filter_chains[0].filters[0].typed_config.http_filters"

// TestTwiceInOneChain sends requests through a listener that has the plugin twice, and with an internal redirect, after which the
// plugin decides anew. Where the first one sends a request is where it goes, and it is counted there alone.
func TestTwiceInOneChain(t *testing.T) {
	for _, version := range []string{harness.DefaultVersion, harness.OldestVersion} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			var endpoints []harness.Endpoint
			for range 3 {
				var self string
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("x-served-by", self)
					if r.URL.Path == "/moved" {
						http.Redirect(w, r, "http://"+r.Host+"/here", http.StatusFound)
					}
				}))
				t.Cleanup(server.Close)
				self = server.Listener.Addr().String()
				endpoints = append(endpoints, harness.Endpoint{Addr: self})
			}
			g := harness.StartT(t, harness.Options{
				Version: version, Endpoints: endpoints, Config: config(), Edit: withListener("twice", pluginTwice),
			})
			awaitReason(t, g.URL(), "chosen")
			url := listenerURL(t, g, "twice")
			const requests = 20
			before, moves := decided(t, g, "chosen"), sum(t, g, `^wasmcustom\.warmgate_lease_moves_total$`)
			for i := range requests {
				path := [...]string{"/here", "/moved"}[i%2]
				resp, err := http.Get(url + path)
				if err != nil {
					t.Fatal(err)
				}
				_ = resp.Body.Close()
				chosen, served := resp.Header.Get("x-warmgate-host"), resp.Header.Get("x-served-by")
				if resp.StatusCode != http.StatusOK || chosen != served || served == "" {
					t.Errorf("%s: %s, chosen was %q, served by %q", path, resp.Status, chosen, served)
				}
			}
			if n := sum(t, g, `^wasmcustom\.warmgate_lease_moves_total$`) - moves; n != 0 {
				t.Errorf("%v of %d requests were not served where they were counted", n, requests)
			}
			const hops = requests + requests/2
			if n := decided(t, g, "chosen") - before; n != hops {
				t.Errorf("%v were decided on, want %d", n, hops)
			}
			if n := decided(t, g, "already_decided"); n != hops {
				t.Errorf("%v were counted as decided already, want %d", n, hops)
			}
			if n := strings.Count(g.Logs(), "twice in one filter chain"); n < 1 || n > 2 {
				t.Errorf("%d lines in the log, want one for each worker at most", n)
			}
			drained(t, g)
		})
	}
}

// pluginTwice puts the plugin behind itself, and has the gateway follow redirects.
func pluginTwice(listener *yaml.Node) error {
	filters, err := harness.Find(listener, httpFilters)
	if err != nil {
		return err
	}
	plugin, err := harness.Find(listener, httpFilters+"[name=warmgate]")
	if err != nil {
		return err
	}
	at := slices.Index(filters.Content, plugin)
	if at < 0 {
		return fmt.Errorf("no plugin among %d filters", len(filters.Content))
	}
	filters.Content = slices.Insert(filters.Content, at, plugin)
	const route = "filter_chains[0].filters[0].typed_config.route_config.virtual_hosts[name=llm].routes[0].route"
	return harness.Set(listener, route+".internal_redirect_policy", map[string]any{})
}
