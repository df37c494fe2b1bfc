package shipped

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
)

// message is a mistake, what the gateway then logs, and what the documents have of that.
type message struct {
	options harness.Options
	crash   string // how requests crash the module, "" if they do not
	logged  string // a regular expression
	named   string // in docs/troubleshooting.md
}

// pointing returns a configuration of the plugin whose member envoy is that.
func pointing(envoy string) string {
	return `{"lb_policy":"global_least_request","lb_config":{"envoy":{` + envoy + `}}}`
}

func messages(t *testing.T) map[string]message {
	t.Helper()
	module := func(h harness.Host) string {
		path, err := harness.Wasm(t.Context(), h)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	return map[string]message{
		"Higress's artifact": {
			options: harness.Options{Module: module(harness.HostHigress)},
			logged:  "Missing or unknown Proxy-Wasm ABI version", named: "Missing or unknown Proxy-Wasm ABI version",
		},
		"a cluster that is not there": {
			options: harness.Options{Config: pointing(`"admin_cluster":"warmgate-admn"`)},
			logged:  `the admin cluster warmgate-admn cannot be reached: the gateway answered a host call with status 2: it has no cluster of that name`,
			named:   "host call with status 2: it has no cluster of that name",
		},
		"a crash": {
			options: harness.Options{Module: module(harness.HostEnvoyChaos)}, crash: "fatal",
			logged: "warmgate: the module has crashed: fatal error: sync: unlock of unlocked mutex\n" +
				`(.*\n)*.*warmgate: the module has crashed: main\.trapOnDemand\(`,
			named: "`the module has crashed: …`",
		},
		"out of memory": {
			options: harness.Options{Module: module(harness.HostEnvoyChaos)}, crash: "memory",
			logged: "warmgate: the module has crashed: fatal error: out of memory",
			named:  "`fatal error: out of memory`",
		},
	}
}

// TestMessages plants mistakes in gateways as shipped: the log names each, and docs/troubleshooting.md has that. What
// the plugin cannot do is left to the gateway: requests are answered all the same.
func TestMessages(t *testing.T) {
	harness.LongT(t)
	upstream := server(t)
	document := string(harness.ReadT(t, "docs/troubleshooting.md"))
	for name, m := range messages(t) {
		t.Run(name, func(t *testing.T) {
			m.options.Endpoints = []harness.Endpoint{upstream}
			g := harness.StartT(t, m.options)
			await(t, "the log", regexp.MustCompile(m.logged), func() string {
				if m.crash != "" {
					harness.Send(t, nil, http.MethodGet, g.URL(), "", "x-warmgate-chaos: "+m.crash)
				} else if a := harness.Send(t, nil, http.MethodGet, g.URL(), ""); a.Status != http.StatusTeapot {
					t.Fatalf("answered %d", a.Status)
				}
				return g.Logs()
			})
			if !strings.Contains(document, m.named) {
				t.Errorf("docs/troubleshooting.md does not have %q", m.named)
			}
		})
	}
}
