package fault

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
)

// sendThroughTwo sends requests through a listener that has the plugin twice, and with an internal redirect, after
// which the plugin decides again. A request goes where the first one sends it, and is counted there only.
func sendThroughTwo(t *testing.T, g *harness.Gateway) {
	t.Helper()
	url := listenerURL(t, g, "twice")
	const requests = 20
	before, moves := g.DecidedT(t, "chosen"), g.SumT(t, `^wasmcustom\.warmgate_lease_moves_total$`)
	for i := range requests {
		path := [...]string{"/v1/models", "/moved"}[i%2]
		a := harness.Send(t, http1, http.MethodGet, url+path, "")
		served := a.Header.Get("x-served-by")
		if a.Status != http.StatusOK || a.Host() != served || served == "" {
			t.Errorf("%s: %d, chosen was %q, served by %q", path, a.Status, a.Host(), served)
		}
	}
	if n := g.SumT(t, `^wasmcustom\.warmgate_lease_moves_total$`) - moves; n != 0 {
		t.Errorf("%v of %d requests were not served where they were counted", n, requests)
	}
	const hops = requests + requests/2
	if n := g.DecidedT(t, "chosen") - before; n != hops {
		t.Errorf("%v were decided on, want %d", n, hops)
	}
	if n := g.DecidedT(t, "already_decided"); n != hops {
		t.Errorf("%v were counted as decided already, want %d", n, hops)
	}
	if n := strings.Count(g.Logs(), "twice in one filter chain"); n < 1 || n > 2 {
		t.Errorf("%d lines in the log, want one for each worker at most", n)
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
	const route = manager + ".route_config.virtual_hosts[name=llm].routes[0].route"
	return harness.Set(listener, route+".internal_redirect_policy", map[string]any{})
}
