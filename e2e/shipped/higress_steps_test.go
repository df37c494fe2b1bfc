package shipped

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/higresshost"
	"github.com/warmgate/warmgate/e2e/mesh/lab"
	"github.com/warmgate/warmgate/e2e/wasmplugin"
)

// steps is the document that begins with the steps, firstFile what the first block of its second way begins with.
const (
	steps     = "docs/higress.md"
	firstFile = "# my-warmgate.yaml\n"
)

// TestStepsInHigress plays the steps with which docs/higress.md begins, as they stand there, in the test host: on,
// another policy, off, on again, and in the console switched off. Each step decides the next request. What is in flight
// ends as it began.
func TestStepsInHigress(t *testing.T) {
	counted := []string{
		"policy=global_least_request;reason=chosen", "policy=prefix_cache;reason=chosen",
		"policy=prefix_cache;reason=disabled", "policy=prefix_cache;reason=chosen", "policy=none;reason=no_rule",
	}
	const route, cluster, endpoint = "ai-route-chat.internal", "llm", "10.0.0.1:8000"
	for way, configs := range map[string][]string{"console": inConsole(t), "resource": byCommands(t)} {
		t.Run(way, func(t *testing.T) {
			if want := map[string]int{"console": 5, "resource": 4}[way]; len(configs) != want {
				t.Fatalf("%d configurations, want %d: %q", len(configs), want, configs)
			}
			gw := higresshost.Start(t, higresshost.Options{
				Wasm: harness.ModuleT(t, harness.HostHigress), Config: configs[0],
			})
			gw.Cluster(cluster).Add(endpoint)
			var inFlight []*higresshost.Stream
			chosen := int64(0)
			for i, config := range configs {
				if err := gw.PushConfig(config); err != nil {
					t.Fatalf("%s: %v", config, err)
				}
				stat := "warmgate_decisions_total;" + counted[i]
				before := gw.Metrics().Counter(stat)
				s := gw.Worker(0).NewStream().To(route, cluster)
				s.Send(http.MethodPost, "/v1/chat/completions",
					`{"model":"m","messages":[{"role":"user","content":"x"}]}`)
				if n := gw.Metrics().Counter(stat) - before; n != 1 || s.Upstream() != endpoint {
					t.Errorf("%s: a request went to %q, counted %d times as %s", config, s.Upstream(), n, counted[i])
				}
				if inFlight = append(inFlight, s); strings.HasSuffix(stat, "=chosen") {
					chosen++
				}
			}
			gauge := "warmgate_inflight_requests;cluster=" + cluster + ";endpoint=" + endpoint
			gw.Advance(2 * time.Second)
			if n := gw.Metrics().Gauge(gauge); n != chosen {
				t.Errorf("%d requests in flight are counted, want %d", n, chosen)
			}
			for _, s := range inFlight {
				if s.Respond(http.StatusOK, "{}"); s.Code != http.StatusOK || s.Cut {
					t.Errorf("%s was answered %d", s, s.Code)
				}
			}
			gw.Advance(2 * time.Second)
			if n := gw.Metrics().Gauge(gauge); n != 0 {
				t.Errorf("%d requests in flight after the last answer", n)
			}
		})
	}
}

// inConsole returns what Higress hands to the plugin after each step in the console, which writes the YAML of a route
// into a rule for that route alone. The last step switches the rule off: then Higress has no plugin, unless there is
// another rule.
func inConsole(t *testing.T) (configs []string) {
	t.Helper()
	_, text, _ := strings.Cut(string(harness.ReadT(t, steps)), "\n### In the console\n")
	text, _, _ = strings.Cut(text, "\n### ")
	r, _ := resource(t, []byte(lab.Block(t, steps, "yaml", firstFile)))
	for _, entered := range []string{
		r.Metadata.Labels["higress.io/wasm-plugin-name"], strings.TrimPrefix(r.Spec.URL, "oci://"),
		strconv.Itoa(*r.Spec.Priority),
	} {
		if !strings.Contains(text, "`"+entered+"`") {
			t.Errorf("%s: the console is not given %s", steps, entered)
		}
	}
	rule := &r.Spec.MatchRules[0]
	rule.Config = map[string]any{}
	for _, m := range regexp.MustCompile("(?s)```yaml\n(.*?)```|`(\\w+: \\w+)`").FindAllStringSubmatch(text, -1) {
		if err := yaml.Unmarshal([]byte(m[1]+m[2]), &rule.Config); err != nil {
			t.Fatal(err)
		}
		raw, err := r.PluginConfig()
		if err != nil {
			t.Fatal(err)
		}
		configs = append(configs, string(raw))
	}
	*rule.ConfigDisable = true
	if raw, err := r.PluginConfig(); raw != nil || err != nil {
		t.Errorf("switched off, but the plugin gets %s, %v", raw, err)
	}
	r.Spec.MatchRules = append(r.Spec.MatchRules, wasmplugin.Rule{Ingress: []string{"other"}, Config: rule.Config})
	raw, err := r.PluginConfig()
	if err != nil {
		t.Fatal(err)
	}
	return append(configs, string(raw))
}

// byCommands returns what Higress hands to the plugin after each kubectl apply of the steps with a resource.
func byCommands(t *testing.T) (configs []string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "my-warmgate.yaml")
	if err := os.WriteFile(file, []byte(lab.Block(t, steps, "yaml", firstFile)), 0o644); err != nil {
		t.Fatal(err)
	}
	script := `n=0; kubectl() { [ "$1 $2" = "apply -f" ]; n=$((n + 1)); cp "$3" $n; }` + "\n"
	for _, block := range lab.Blocks(t, steps, "console") {
		for _, command := range lab.Commands(block) {
			if strings.HasSuffix(command, " my-warmgate.yaml") {
				script += command + "\n"
			}
		}
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-euc", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for {
		text, err := os.ReadFile(filepath.Join(dir, strconv.Itoa(len(configs)+1)))
		if err != nil {
			return configs
		}
		_, raw := resource(t, text)
		configs = append(configs, string(raw))
	}
}
