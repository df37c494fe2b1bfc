package helm

import (
	"bytes"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/strvals"

	"github.com/warmgate/warmgate/e2e/mesh/lab"
)

const document = "docs/helm.md"

// valuesOf returns the values that a command gives to Helm. A file of values is the document's block that begins with
// its name.
func valuesOf(t *testing.T, command string) map[string]any {
	t.Helper()
	values := map[string]any{}
	words := strings.Fields(strings.ReplaceAll(command, "$REGISTRY", registry))
	for i := 0; i+1 < len(words); i++ {
		switch words[i] {
		case "-f":
			maps.Copy(values, given(t, lab.Block(t, document, "yaml", "# "+words[i+1]+"\n")))
		case "--set":
			if err := strvals.ParseInto(strings.Trim(words[i+1], "'"), values); err != nil {
				t.Fatalf("%s: %v", command, err)
			}
		}
	}
	return values
}

const registry = "hub.llm.test/llm"

// TestInstall does what the document's commands do, up to the API server: they name a chart that is there and values
// that it takes. The first two install what the commands for Istio and for Envoy Gateway apply.
func TestInstall(t *testing.T) {
	installs := 0
	for _, block := range lab.Blocks(t, document, "console") {
		for _, command := range lab.Commands(block) {
			words := strings.Fields(command)
			if words[0] != "helm" || words[1] != "install" && words[1] != "upgrade" {
				continue
			}
			c := load(t)
			if words[2] != "warmgate" || words[3] != "deploy/helm" && words[3] != released(c) {
				t.Errorf("%s: no such chart", command)
			}
			values := valuesOf(t, command)
			list := renderedOf(t, c, values)
			if off := strings.Contains(command, "config.enabled=false"); off && parsed(t, pluginOf(t, list)).
				Match("", "outbound|8000||engines.models.svc.cluster.local", "").Enabled {
				t.Errorf("%s does not switch the plugin off", command)
			}
			if installs++; installs <= 2 {
				gateway := []string{"istio", "envoy-gateway"}[installs-1]
				want(t, values, gateway, "gateway")
				same(t, gateway, list, applied(t, "docs/"+gateway+".md"))
			}
		}
	}
	if installs < 7 {
		t.Errorf("%d installations", installs)
	}
}

// released is the file in which a release has the chart.
func released(c *chart.Chart) string {
	return "build/out/release/" + c.Name() + "-" + c.Metadata.Version + ".tgz"
}

// applied are the resources that a document's installation applies, with the images from the registry.
func applied(t *testing.T, document string) []resource {
	t.Helper()
	var names []string
	for _, command := range lab.Commands(lab.Block(t, document, "console", "make push-image")) {
		for _, file := range lab.Applied(command) {
			names = append(names, strings.TrimPrefix(file, "deploy/"))
		}
	}
	return shipped(t, names, example, registry)
}

// TestRelease compares the chart in a release with the source tree's, as Helm reads both.
func TestRelease(t *testing.T) {
	c := load(t)
	file := filepath.Base(released(c))
	packed, err := loader.LoadArchive(bytes.NewReader(folderT(t, "").files[file]))
	if err != nil {
		t.Fatal(err)
	}
	files := func(c *chart.Chart) map[string][]byte {
		all := map[string][]byte{}
		for _, f := range c.Raw {
			all[f.Name] = f.Data
		}
		return all
	}
	if !maps.EqualFunc(files(packed), files(c), bytes.Equal) {
		t.Errorf("%s has %q, the source tree %q, or a file differs", file,
			slices.Sorted(maps.Keys(files(packed))), slices.Sorted(maps.Keys(files(c))))
	}
	for _, values := range []string{"gateway: istio", "gateway: envoy-gateway"} {
		same(t, values, renderedOf(t, packed, complete(given(t, values))), rendered(t, values))
	}
}
