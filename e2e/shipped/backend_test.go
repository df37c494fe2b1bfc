package shipped

import (
	"errors"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
)

// TestBackendOfRoute has the cluster that the configuration names be called otherwise, and the route have that name in
// its metadata, as Envoy Gateway writes it there for a backend of the policy: engines are scraped all the same, and
// asked for their lists of models.
func TestBackendOfRoute(t *testing.T) {
	const name, cluster = "warmgate-metrics", "envoyextensionpolicy/default/warmgate/backend/0"
	server := httptest.NewServer(engine())
	t.Cleanup(server.Close)
	edit := harness.OfFile("envoy.yaml", func(doc *yaml.Node) error {
		return errors.Join(
			harness.Set(doc, "static_resources.clusters[name="+name+"].name", cluster),
			harness.Set(doc, harness.RoutesPath+"[0].metadata", map[string]any{"filter_metadata": map[string]any{
				"gateway.envoyproxy.io/extension-backends": map[string]any{name: cluster},
			}}),
		)
	})
	config := strings.Replace(metricsText(t), `"debug_headers": false`, `"models": {"cluster": "`+name+`"}`, 1)
	for _, version := range []string{harness.OldestVersion, harness.DefaultVersion} {
		t.Run(version, func(t *testing.T) {
			g := harness.StartT(t, harness.Options{
				Version: version, Config: config, Edit: edit,
				Endpoints: []harness.Endpoint{{Addr: server.Listener.Addr().String()}},
			})
			for _, pages := range []string{"metrics_scrapes", "model_lists"} {
				read := regexp.MustCompile(`(?m)^warmgate_` + pages + `_total\{result="ok"\} [1-9]`)
				await(t, "the Prometheus page", read, func() string {
					send(t, g)
					return g.PrometheusT(t)
				})
			}
		})
	}
}
