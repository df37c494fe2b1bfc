package doctest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/wasmplugin"
	"github.com/warmgate/warmgate/plugin/config"
)

// envoyBlocks has the tests that run the blocks of Envoy's own configuration: by document, one for each block. Those of
// a Chinese document are the same.
var envoyBlocks = map[string][]string{
	"docs/artifacts.md": {"TestEnvoyLoadsByHTTP"},
	"docs/clusters.md":  {"TestRetryInAnotherCluster", "TestRetryInAnotherCluster"},
	"docs/envoy.md":     {"TestEnvoyHTTP3"},
	"docs/overload.md":  {"TestOverloadAsShipped"},
}

// others are the first keys of blocks that are of other programs: Prometheus's, values of the Helm chart with rules and
// monitors, and an annotation of Istio, which e2e/observability, e2e/helm and TestShippedBuckets look at.
var others = map[string]bool{
	"rule_files": true, "observability": true, "sidecar.istio.io/statsHistogramBuckets": true,
	"endpointPickerRef": true, // a part of an InferencePool
}

// TestConfigurationBlocks parses every JSON and YAML block of the documents as what it is: the plugin's configuration
// for stock Envoy, or a WasmPlugin resource of Higress. It knows the languages of all blocks, so that none is left out.
func TestConfigurationBlocks(t *testing.T) {
	parsed := 0
	tests, _ := testsOf(t)
	for _, d := range documents(t) {
		envoys := envoyBlocks[strings.Replace(d.name, chineseEnd, ".md", 1)]
		for _, b := range d.blocks {
			raw, host := []byte(harness.Own(b.text)), config.Envoy
			var err error
			switch b.language {
			case "json":
				if d.name != "docs/envoy.md" && !strings.Contains(b.text, `"envoy"`) {
					host = config.Higress
				}
			case "yaml":
				if strings.Contains(b.text, "type.googleapis.com/envoy.") {
					if len(envoys) == 0 || tests[envoys[0]] == nil {
						t.Errorf("%s:%d: no test runs this configuration of Envoy", d.name, b.line)
					} else {
						envoys = envoys[1:]
					}
					continue
				}
				if d.name == chartPage {
					continue // values of the Helm chart: e2e/helm renders it with them
				}
				if strings.Replace(d.name, chineseEnd, ".md", 1) == commandLine {
					continue // of pre-commit and GitHub: TestHooks
				}
				if key, _, _ := strings.Cut(b.text, ":"); others[key] {
					continue
				}
				if slices.Contains(meshes, d.name) {
					continue // the control plane's own: e2e/mesh validates it
				}
				host = config.Higress
				raw, err = higress(harness.Own(b.text))
			case "console", "math", "mermaid", "promql", "sh", "text":
				continue // what other tests look at, formulas, and what is printed
			default:
				t.Errorf("%s:%d: a block in a language that no test knows: %q", d.name, b.line, b.language)
				continue
			}
			parsed++
			if err == nil {
				_, err = config.Parse(raw, host)
			}
			if err != nil {
				t.Errorf("%s:%d: %v", d.name, b.line, err)
			}
		}
	}
	if parsed < 5 {
		t.Errorf("only %d blocks found", parsed)
	}
}

// higress turns a YAML block into what Higress hands to the plugin: a resource, or the configuration alone, as in the
// console.
func higress(text string) ([]byte, error) {
	if strings.Contains(text, "apiVersion:") {
		r, err := wasmplugin.Parse([]byte(text))
		if err != nil {
			return nil, err
		}
		return r.PluginConfig()
	}
	whole := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &whole); err != nil {
		return nil, err
	}
	return json.Marshal(whole)
}

// meshes are the documents whose resources e2e/mesh tests, with the code of the control planes.
var meshes = []string{"docs/envoy-gateway.md", "docs/istio.md"}

// guides are the documents whose commands TestGuide, TestUpgradeGuide, TestAdmissionGuide, TestInspectGuide,
// TestConfigurationsReadme, TestStoppedEarly and TestCommandLine run. Chinese documents have the same.
var guides = []string{
	"docs/envoy.md", "docs/metrics.md", "docs/upgrade.md", "docs/admission.md", "docs/inspect.md",
	"docs/troubleshooting.md",
	"envoy-config/README.md", commandLine,
}

// TestCommands allows three kinds of commands in sh blocks: make with targets that exist, go test with a package that
// exists, and any command in a guide that is run.
func TestCommands(t *testing.T) {
	known := targets(t)
	for _, d := range documents(t) {
		for _, b := range d.blocks {
			if b.language != "sh" {
				continue
			}
			for _, line := range commands(b.text) {
				words := strings.Fields(line)
				switch {
				case words[0] == "make":
					for _, w := range words[1:] {
						if !strings.Contains(w, "=") && !slices.Contains(known, w) {
							t.Errorf("%s:%d: %s: no such target", d.name, b.line, line)
						}
					}
				case strings.HasPrefix(line, "go test ./"):
					if _, err := os.Stat(filepath.Join(root(t), strings.TrimSuffix(words[2], "/..."))); err != nil {
						t.Errorf("%s:%d: %s: %v", d.name, b.line, line, err)
					}
				case !slices.Contains(guides, strings.Replace(d.name, chineseEnd, ".md", 1)):
					t.Errorf("%s:%d: %s: no test runs this", d.name, b.line, line)
				}
			}
		}
		for _, code := range d.code {
			if words := strings.Fields(code); len(words) > 1 && words[0] == "make" &&
				!slices.Contains(known, words[1]) {
				t.Errorf("%s: `%s`: no such target", d.name, code)
			}
		}
	}
}

// commands splits a block into commands; a backslash continues a line, and remarks are left out.
func commands(text string) []string {
	text = regexp.MustCompile(`(?m)\s+# .*$`).ReplaceAllString(strings.ReplaceAll(text, "\\\n", " "), "")
	return strings.Split(strings.TrimSpace(text), "\n")
}

// targets returns the targets of the Makefile and of what it includes.
func targets(t *testing.T) []string {
	t.Helper()
	files := []string{filepath.Join(root(t), "Makefile")}
	included, err := filepath.Glob(filepath.Join(root(t), "build", "*.mk"))
	if err != nil {
		t.Fatal(err)
	}
	target := regexp.MustCompile(`(?m)^([a-z0-9-]+):`)
	var names []string
	for _, file := range append(files, included...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range target.FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1])
		}
	}
	return names
}
