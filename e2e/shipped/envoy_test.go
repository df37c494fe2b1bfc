package shipped

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/plugin/config"
)

const (
	pluginPath = "resources[name=warmgate].typed_config.config"
	listPath   = pluginPath + ".vm_config.capability_restriction_config.allowed_capabilities"
)

// TestEnvoyAcceptsTheFiles lets each Envoy validate the bootstrap files unchanged. The files that they refer to are
// used by every test that starts a gateway.
func TestEnvoyAcceptsTheFiles(t *testing.T) { envoyAccepts(t) }

// envoyAccepts lets each Envoy validate both bootstrap files with further arguments.
func envoyAccepts(t *testing.T, args ...string) {
	t.Helper()
	for _, version := range append(harness.Between(), harness.DefaultVersion, harness.OldestVersion) {
		binary, err := harness.Envoy(t.Context(), version)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{"envoy.yaml", "envoy-hardened.yaml"} {
			t.Run(version+" "+file, func(t *testing.T) {
				dir := t.TempDir()
				if err := os.CopyFS(dir, os.DirFS(harness.PathT(t, "envoy-config"))); err != nil {
					t.Fatal(err)
				}
				if version == harness.OldestVersion {
					dropAllowPaths(t, filepath.Join(dir, file))
				}
				cmd := exec.Command(binary, append(args, "--mode", "validate", "--config-path", file, "--log-level",
					"warning")...)
				cmd.Dir = dir
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				if strings.Contains(string(out), "Deprecated") {
					t.Errorf("uses what Envoy will drop:\n%s", out)
				}
			})
		}
	}
}

// dropAllowPaths makes the change that the file describes for users of Envoy 1.36.
func dropAllowPaths(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	doc := new(yaml.Node)
	if err := yaml.Unmarshal(text, doc); err != nil {
		t.Fatal(err)
	}
	if _, err := harness.Find(doc, "admin.allow_paths"); err != nil {
		return // the plain layout
	}
	if err := harness.Remove(doc, "admin.allow_paths"); err != nil {
		t.Fatal(err)
	}
	if text, err = yaml.Marshal(doc); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestHardenedIsPlainAndMore compares the two layouts: everything in the plain one is in the hardened one too.
func TestHardenedIsPlainAndMore(t *testing.T) {
	for _, pair := range [][2]string{
		{"envoy.yaml", "envoy-hardened.yaml"}, {"warmgate.yaml", "warmgate-hardened.yaml"},
	} {
		var plain, hardened any
		for i, target := range []*any{&plain, &hardened} {
			if err := parse(t, "envoy-config/"+pair[i]).Decode(target); err != nil {
				t.Fatal(err)
			}
		}
		for _, missing := range lacking("", plain, hardened) {
			if missing != ".static_resources.listeners[0].filter_chains[0].filters[0].typed_config.http_filters[1]"+
				".config_discovery.config_source.path_config_source.path" {
				t.Errorf("%s differs from %s at %s", pair[1], pair[0], missing)
			}
		}
	}
}

// lacking returns the places at which more lacks what less has.
func lacking(at string, less, more any) []string {
	switch less := less.(type) {
	case map[string]any:
		more, _ := more.(map[string]any)
		var found []string
		for key, value := range less {
			found = append(found, lacking(at+"."+key, value, more[key])...)
		}
		return found
	case []any:
		more, _ := more.([]any)
		if len(more) != len(less) {
			return []string{at}
		}
		var found []string
		for i := range less {
			found = append(found, lacking(at+"["+strconv.Itoa(i)+"]", less[i], more[i])...)
		}
		return found
	default:
		if less != more {
			return []string{at}
		}
		return nil
	}
}

// TestOrderOfFilters checks in the shipped layouts the order that docs/envoy.md requires: the filter that makes Envoy
// choose the route again is directly in front of the plugin, and the two headers are removed after stateful_session has
// read one of them.
func TestOrderOfFilters(t *testing.T) {
	want := []string{
		"warmgate-strip-client", "warmgate", "envoy.filters.http.stateful_session", "warmgate-take",
		"envoy.filters.http.router",
	}
	for _, file := range []string{"envoy.yaml", "envoy-hardened.yaml"} {
		var names []string
		for _, f := range find[[]struct{ Name string }](t, parse(t,
			"envoy-config/"+file), "static_resources.listeners[name=main]."+
			"filter_chains[0].filters[0].typed_config.http_filters") {
			names = append(names, f.Name)
		}
		if !slices.Equal(names, want) {
			t.Errorf("%s has the filters %q, want %q", file, names, want)
		}
	}
}

// TestCapabilitiesAreThoseOfTheModule compares the list of allowed calls with what the module imports and exports:
// nothing that it needs is missing, and nothing is allowed that it does not have.
func TestCapabilitiesAreThoseOfTheModule(t *testing.T) {
	text := harness.ModuleT(t, harness.HostEnvoy)
	ctx := context.Background()
	runtime := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	defer runtime.Close(ctx)
	compiled, err := runtime.CompileModule(ctx, text)
	if err != nil {
		t.Fatal(err)
	}
	allowed := find[map[string]any](t, parse(t, "envoy-config/warmgate-hardened.yaml"), listPath)
	known := compiled.ExportedFunctions()
	for _, f := range compiled.ImportedFunctions() {
		_, name, _ := f.Import()
		known[name] = f
		if _, ok := allowed[name]; !ok {
			t.Errorf("the module imports %s, which is not allowed", name)
		}
	}
	for name := range allowed {
		if _, ok := known[name]; !ok {
			t.Errorf("%s is allowed, but the module neither imports nor exports it", name)
		}
	}
}

// TestPluginConfigurations parses the configuration of each shipped plugin file as the plugin does.
func TestPluginConfigurations(t *testing.T) {
	for _, file := range []string{"warmgate.yaml", "warmgate-hardened.yaml"} {
		doc := parse(t, "envoy-config/"+file)
		set, err := config.Parse([]byte(find[string](t, doc, pluginPath+".configuration.value")), config.Envoy)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		source, ok := set.AdminSource()
		bootstrap := parse(t, "envoy-config/envoy.yaml")
		if _, err := harness.Find(bootstrap, "static_resources.clusters[name="+source.AdminCluster+"]"); !ok ||
			err != nil {
			t.Errorf("%s: admin cluster %q is not in envoy.yaml: %v", file, source.AdminCluster, err)
		}
	}
}

// server starts a model server that is healthy and answers 418 to everything else, so that its answer can be
// distinguished from Envoy's own.
func server(t *testing.T) harness.Endpoint {
	t.Helper()
	return harness.ServeT(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/health" {
			w.WriteHeader(http.StatusTeapot)
		}
	}))
}

// TestDecisionIsReported starts both layouts with the shipped plugin configuration and looks where an operator looks:
// the access log and the Prometheus page.
func TestDecisionIsReported(t *testing.T) {
	upstream := server(t)
	host := upstream.Addr
	for name, o := range map[string]harness.Options{
		"plain":         {},
		"hardened":      {Hardened: true},
		"plain, oldest": {Version: harness.OldestVersion},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "hardened" {
				harness.LongT(t)
			}
			o.Endpoints = []harness.Endpoint{upstream}
			g := take(t, o)
			await(t, "the access log", regexp.MustCompile(
				`POST /v1/x 418 - upstream=`+regexp.QuoteMeta(host)+` .* details=via_upstream warmgate="host=`+
					regexp.QuoteMeta(host)+` reason=chosen load=1 policy=global_least_request[^"]*"`),
				func() string { send(t, g.Gateway); return g.AccessLog() })
			page := func() string { return g.PrometheusT(t) }
			for _, line := range []string{
				`warmgate_decisions_total\{policy="global_least_request",reason="chosen"\} [1-9]`,
				`warmgate_inflight_requests\{cluster="llm",endpoint="` + regexp.QuoteMeta(host) + `"\} 0`,
				`warmgate_config_valid\{\} 1`,
				`warmgate_reserve_us_bucket\{le="50"\}`,
				`warmgate_policy_info\{policy="global_least_request"\} 1`,
				`warmgate_requests_total\{policy="global_least_request",cluster="llm",outcome="[a-z_]+"\} [1-9]`,
				`warmgate_request_duration_ms_bucket\{policy="global_least_request",cluster="llm",outcome="\w+",le="350"\}`,
				`warmgate_endpoint_requests_total\{cluster="llm",endpoint="` + regexp.QuoteMeta(host) + `",outcome="`,
			} {
				await(t, "the Prometheus page", regexp.MustCompile(`(?m)^`+line), page)
			}
		})
	}
}

// TestDNSCluster replaces the cluster's endpoint file by a DNS name, as README.md describes.
func TestDNSCluster(t *testing.T) {
	harness.LongT(t)
	_, port, err := net.SplitHostPort(server(t).Addr)
	if err != nil {
		t.Fatal(err)
	}
	g := harness.StartT(t, harness.Options{Edit: harness.OfFile("clusters.yaml", func(doc *yaml.Node) error {
		const cluster = "resources[name=llm]"
		var named any
		assignment := `{cluster_name: llm, endpoints: [{lb_endpoints: [
			{endpoint: {address: {socket_address: {address: localhost, port_value: ` + port + `}}}}]}]}`
		return errors.Join(
			yaml.Unmarshal([]byte(assignment), &named),
			harness.Set(doc, cluster+".type", "STRICT_DNS"),
			harness.Set(doc, cluster+".dns_lookup_family", "V4_ONLY"),
			harness.Remove(doc, cluster+".eds_cluster_config"),
			harness.Set(doc, cluster+".load_assignment", named),
		)
	})})
	await(t, "the access log", regexp.MustCompile(`warmgate="host=127\.0\.0\.1:`+port+` reason=chosen load=1 policy=global_least_request[^"]*"`),
		func() string { send(t, g); return g.AccessLog() })
}

// await waits until what read returns matches.
func await(t *testing.T, what string, want *regexp.Regexp, read func() string) {
	t.Helper()
	harness.Await(t, func() error {
		text := read()
		if want.MatchString(text) {
			return nil
		}
		lines := slices.DeleteFunc(strings.Split(text, "\n"), func(l string) bool {
			return !strings.Contains(l, "warmgate")
		})
		return fmt.Errorf("%s has no line %s:\n%s", what, want, strings.Join(lines[max(0, len(lines)-20):], "\n"))
	})
}

// awaitChosen sends requests until the access log has one that the plugin has placed.
func awaitChosen(t *testing.T, g *harness.Gateway) {
	t.Helper()
	await(t, "the access log", regexp.MustCompile(`reason=chosen`), func() string { send(t, g); return g.AccessLog() })
}

// send sends a request to the gateway.
func send(t *testing.T, g *harness.Gateway) {
	t.Helper()
	harness.Send(t, http.DefaultClient, http.MethodPost, g.URL()+"/v1/x?key=hidden", `{"prompt":"x"}`, "content-type: application/json")
}

// TestNativeWithoutValidPlugin starts gateways whose plugin cannot start: requests are balanced natively.
func TestNativeWithoutValidPlugin(t *testing.T) {
	harness.LongT(t)
	upstream := server(t)
	empty := filepath.Join(t.TempDir(), "empty.wasm")
	if err := os.WriteFile(empty, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]harness.Options{
		"configuration refused": {Config: `{"lb_policy":"nonsense"}`},
		"module missing":        {Module: "no/such.wasm"},
		"module empty":          {Module: empty},
	} {
		t.Run(name, func(t *testing.T) {
			o.Endpoints = []harness.Endpoint{upstream}
			g := harness.StartT(t, o)
			if a := harness.Send(t, nil, http.MethodGet, g.URL(), ""); a.Status != http.StatusTeapot {
				t.Errorf("answered %d", a.Status)
			}
		})
	}
}
