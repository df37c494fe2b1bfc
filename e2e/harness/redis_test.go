package harness_test

import (
	"net/http"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/redisserver"
)

// TestRedisTunnel sends Redis commands through the shipped tunnel on every Envoy: to the server, and to a node by its
// address. A listener of the test's own takes the plugin's place.
func TestRedisTunnel(t *testing.T) {
	server := redisserver.StartT(t, redisserver.Options{})
	node := redisserver.StartT(t, redisserver.Options{})
	for _, version := range []string{harness.DefaultVersion, harness.OldestVersion} {
		t.Run(version, func(t *testing.T) {
			g := harness.StartT(t, harness.Options{
				Version: version, NoPlugin: true, Redis: server.Addr(),
				Edit: leadToTunnel,
			})
			for _, c := range []struct {
				name, node string
				to         *redisserver.Server
			}{
				{"server", "", server},
				{"node", node.Addr(), node},
			} {
				body := "*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n*2\r\n$3\r\nGET\r\n$1\r\n\x00\r\n*1\r\n$4\r\nPING\r\n"
				if _, err := c.to.Do("SET", "n", 41); err != nil {
					t.Fatal(err)
				}
				var headers []string
				if c.node != "" {
					headers = append(headers, "x-test-node: "+c.node)
				}
				got := harness.Send(t, nil, http.MethodPost, g.URL(), body, headers...).Body
				if got != ":42\r\n$-1\r\n+PONG\r\n" {
					t.Errorf("%s: %q", c.name, got)
				}
			}
		})
	}
}

// leadToTunnel sends all requests of the main listener to the tunnel, as calls of the plugin look: without
// x-forwarded-proto, and with the address of a node that only the plugin may name.
var leadToTunnel = harness.OfFile("envoy.yaml", func(doc *yaml.Node) error {
	return harness.Set(doc, harness.RoutesPath, []any{map[string]any{
		"match": map[string]any{"prefix": "/"}, "route": map[string]any{"cluster": "warmgate-redis"},
		"request_headers_to_remove": []any{"x-forwarded-proto"},
		"request_headers_to_add": []any{map[string]any{
			"header": map[string]any{"key": "x-warmgate-redis-node", "value": "%REQ(x-test-node)%"},
		}},
	}})
})
