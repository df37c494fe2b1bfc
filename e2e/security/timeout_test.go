package security

import (
	"net/http"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
)

// TestClientsDoNotSetTimeouts sends the header by which Envoy lets internal clients set the time limit of a request,
// from addresses that are internal by what a client claims. With an internal_address_config they are answered 504.
func TestClientsDoNotSetTimeouts(t *testing.T) {
	slow := harness.ServeT(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/health" {
			time.Sleep(100 * time.Millisecond)
		}
	}))
	for name, o := range layouts {
		for _, o.Version = range []string{harness.DefaultVersion, harness.OldestVersion} {
			t.Run(name+" "+o.Version, func(t *testing.T) {
				o.NoPlugin = true
				o.Endpoints = []harness.Endpoint{slow}
				g := harness.StartT(t, o)
				for _, from := range []string{"", "10.0.0.1", "127.0.0.1", "fd00::1"} {
					headers := []string{"x-envoy-upstream-rq-timeout-ms: 1"}
					if from != "" {
						headers = append(headers, "x-forwarded-for: "+from)
					}
					if a := harness.Send(t, nil, http.MethodGet, g.URL(), "", headers...); a.Status != http.StatusOK {
						t.Errorf("from %q: answered %d", from, a.Status)
					}
				}
			})
		}
	}
}
