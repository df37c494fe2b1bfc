package fault

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
)

// limited adds a filter that refuses bodies of more than 1 MiB to a listener, in front of the plugin or behind it.
func limited(offset int) func(listener *yaml.Node) error {
	return func(listener *yaml.Node) error {
		return harness.Insert(listener, httpFilters, "warmgate", offset, fmt.Sprintf(`
- name: envoy.filters.http.buffer
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.buffer.v3.Buffer
    max_request_bytes: %d
`, mib))
	}
}

// sendToLimits sends bodies through a filter that limits them, in front of the plugin and behind it: it refuses those
// that exceed the limit, whether the plugin holds requests for their bodies or not.
func sendToLimits(t *testing.T, g *harness.Gateway) {
	t.Helper()
	for _, unit := range []string{"requests", "tokens"} {
		if err := g.PushPlugin(t.Context(), config(`"unit":"`+unit+`"`, `"body_timeout":"30s"`)); err != nil {
			t.Fatal(err)
		}
		for where, times := range map[string]int{"limit in front": 1, "limit behind": 8} {
			t.Run(unit+", "+where, func(t *testing.T) {
				url := listenerURL(t, g, where)
				for range times { // how much of a body Envoy reads at once differs each time
					sendLimited(t, url)
				}
			})
		}
	}
}

// sendLimited sends bodies within the limit of 1 MiB and beyond it.
func sendLimited(t *testing.T, url string) {
	t.Helper()
	for name, c := range map[string]*http.Client{"HTTP/1": http1, "HTTP/2": http2} {
		for _, size := range []int{mib / 2, 11 * mib / 10, 12 * mib} {
			body := text(size)
			got := postTo(c, url, body, mib, -1)
			// Envoy closes the connection of a client that continues to send.
			refused := strings.HasPrefix(got, "413 ") || strings.Contains(got, "broken pipe") ||
				strings.Contains(got, "reset by peer")
			if size <= mib && got != arrived(body) || size > mib && !refused {
				t.Errorf("%s, %d bytes: %.100s", name, size, got)
			}
		}
	}
}
