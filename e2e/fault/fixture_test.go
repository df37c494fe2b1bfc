package fault

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
)

// config returns a configuration of the plugin that polls often. Lines are added to lb_config, each as `"key":value`.
func config(lines ...string) string {
	all := append([]string{
		`"envoy":{"admin_cluster":"warmgate-admin","poll_interval":"100ms"}`, `"debug_headers":true`, `"health":{"slow_start":0}`,
	}, lines...)
	return `{"lb_type":"endpoint","lb_policy":"global_least_request","lb_config":{` + strings.Join(all, ",") + `}}`
}

// probe sends a request on a connection of its own, so that any worker may get it, and returns the headers of the
// answer. No status but 200 will do.
func probe(t *testing.T, url string) http.Header {
	t.Helper()
	return probeAt(t, url+"/v1/models")
}

func probeAt(t *testing.T, url string) http.Header {
	t.Helper()
	a := harness.Send(t, nil, http.MethodGet, url, "")
	if a.Status != http.StatusOK {
		t.Fatalf("%d: %s", a.Status, a.Body)
	}
	return a.Header
}

// used returns how many bytes of memory Envoy uses.
func used(t *testing.T, g *harness.Gateway) int64 {
	t.Helper()
	n, _, err := g.Used(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

const mib = 1 << 20
