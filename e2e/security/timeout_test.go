package security

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
)

// TestClientsDoNotSetTimeouts sends the header by which Envoy lets internal clients set the time limit of a request, from
// addresses that are internal by what a client claims. With an internal_address_config they are answered 504.
func TestClientsDoNotSetTimeouts(t *testing.T) {
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/health" {
			time.Sleep(100 * time.Millisecond)
		}
	}))
	t.Cleanup(slow.Close)
	for name, o := range layouts {
		for _, o.Version = range []string{harness.DefaultVersion, harness.OldestVersion} {
			t.Run(name+" "+o.Version, func(t *testing.T) {
				o.NoPlugin = true
				o.Endpoints = []harness.Endpoint{{Addr: slow.Listener.Addr().String()}}
				g := harness.StartT(t, o)
				for _, from := range []string{"", "10.0.0.1", "127.0.0.1", "fd00::1"} {
					r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.URL(), nil)
					if err != nil {
						t.Fatal(err)
					}
					r.Header.Set("x-envoy-upstream-rq-timeout-ms", "1")
					if from != "" {
						r.Header.Set("x-forwarded-for", from)
					}
					resp, err := http.DefaultClient.Do(r)
					if err != nil {
						t.Fatal(err)
					}
					resp.Body.Close()
					if resp.StatusCode != http.StatusOK {
						t.Errorf("from %q: answered %s", from, resp.Status)
					}
				}
			})
		}
	}
}
