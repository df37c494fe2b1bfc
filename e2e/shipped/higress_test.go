package shipped

import (
	"cmp"
	"encoding/json"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/wasmplugin"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
)

// example is the resource that shows rules, too.
const example = "higress-wasmplugin-global-least-request.yaml"

// wasmPlugin reads a shipped resource, and the configuration that it holds.
func wasmPlugin(t *testing.T, name string) (*wasmplugin.Resource, *config.Set) {
	t.Helper()
	r, err := wasmplugin.Parse(harness.Own(harness.ReadT(t, "envoy-config/"+name)))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := r.PluginConfig()
	if err != nil {
		t.Fatal(err)
	}
	set, err := config.Parse(raw, config.Higress)
	if err != nil {
		t.Fatal(err)
	}
	return r, set
}

// A request that the first rule of each shipped WasmPlugin is for, by its route or by its service.
const (
	chatRoute   = "chat"
	chatCluster = "outbound|8000||vllm.dns"
)

// chat returns the configuration of that request.
func chat(t *testing.T, set *config.Set) *config.Config {
	t.Helper()
	c := set.Match(chatRoute, chatCluster, "")
	if c == nil {
		t.Fatal("no rule is for the route chat, or the service vllm.dns")
	}
	return c
}

// TestWasmPlugins reads each WasmPlugin as Higress does and its configuration as the plugin does.
func TestWasmPlugins(t *testing.T) {
	files, err := filepath.Glob(harness.PathT(t, "envoy-config/higress-wasmplugin-*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no WasmPlugin is shipped: %v", err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(name, func(t *testing.T) {
			_, set := wasmPlugin(t, name)
			if warnings := set.Warnings(); len(warnings) > 0 {
				t.Errorf("an example with keys that have no effect: %q", warnings)
			}
			about := strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(name, "higress-wasmplugin-"), ".yaml"),
				"-", "_")
			c := chat(t, set)
			if c.Policy != about && c.Store.String() != about && !(about == "budget" && c.Budget() != nil) &&
				!(about == "overload" && c.Queue.Enabled()) && !(about == "regions" && c.Regions.Enabled()) {
				t.Errorf("neither policy, store, queue nor regions of the first rule are the file's: %+v", c)
			}
		})
	}
}

// TestWasmPluginRules checks that the rules of the example do what their comments describe.
func TestWasmPluginRules(t *testing.T) {
	_, set := wasmPlugin(t, example)
	const anyCluster, embeddings = "outbound|80||vllm.static", "outbound|443||embeddings.dns"
	for _, c := range []struct {
		name, route, cluster, host string
		want                       func(*config.Config) bool
	}{
		{"no rule", "other", anyCluster, "api.example.com", func(c *config.Config) bool { return c == nil }},
		{"route", "chat", anyCluster, "api.example.com", func(c *config.Config) bool {
			return c.Enabled && c.Unit == lb.Requests && c.MaxInflight == 0 && !c.Shadow
		}},
		{"another route", "completions", anyCluster, "api.example.com", func(c *config.Config) bool {
			return c.Enabled && c.Unit == lb.Tokens && c.MaxInflight == 64 && c.Overload.Status == 429 &&
				c.Queue.Enabled()
		}},
		{"domain", "other", anyCluster, "staging.example.com", func(c *config.Config) bool {
			return c.Shadow && c.DebugHeaders
		}},
		{"service", "other", embeddings, "api.example.com", func(c *config.Config) bool { return !c.Enabled }},
	} {
		if got := set.Match(c.route, c.cluster, c.host); got == nil != (c.name == "no rule") || !c.want(got) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// property is a field of the console's schema.
type property struct {
	Type        string
	Title       string
	Titles      map[string]string `yaml:"x-title-i18n"`
	Description string
	Texts       map[string]string `yaml:"x-description-i18n"`
	Default     any
	Properties  map[string]property
}

// TestConsoleSpec compares the console's form with the plugin: it has every key that has an effect on Higress, with its
// type and default, in both languages, and no other.
func TestConsoleSpec(t *testing.T) {
	doc := parse(t, "build/spec.yaml")
	const schema = ".openAPIV3Schema"
	global := find[property](t, doc, "spec.configSchema"+schema)
	if route := find[property](t, doc, "spec.routeConfigSchema"+schema); !reflect.DeepEqual(global, route) {
		t.Error("the schemas of the global and of the route's configuration differ")
	}
	shown := map[string]property{}
	flatten(shown, "", global)
	for _, key := range config.Keys() {
		if strings.HasPrefix(key.Name, "_rules_") || strings.HasPrefix(key.Meaning, "Stock Envoy: ") {
			continue // made by the console itself; without effect in Higress
		}
		p, ok := shown[key.Name]
		delete(shown, key.Name)
		if !ok {
			t.Errorf("%s is missing", key.Name)
			continue
		}
		if p.Title == "" || p.Description == "" || p.Titles["zh-CN"] == "" || p.Texts["zh-CN"] == "" {
			t.Errorf("%s is not described in both languages", key.Name)
		}
		if !slices.Contains(schemaTypes[strings.Fields(key.Type)[0]], p.Type) {
			t.Errorf("%s has type %s, the plugin takes %s", key.Name, p.Type, key.Type)
		}
		var want any
		if err := json.Unmarshal([]byte(cmp.Or(key.Default, "null")), &want); err != nil {
			t.Errorf("%s: %v", key.Name, err)
		}
		got, _ := json.Marshal(p.Default)
		if text, _ := json.Marshal(want); string(got) != string(text) {
			t.Errorf("%s has default %s, the plugin's is %s", key.Name, got, text)
		}
	}
	for name := range shown {
		t.Errorf("%s is shown, but the plugin does not know it", name)
	}
	sample, err := json.Marshal(find[map[string]any](t, doc, "spec.configSchema"+schema+".example"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := config.Parse(sample, config.Higress); err != nil {
		t.Errorf("the example: %v", err)
	}
}

// schemaTypes are the types that a schema may give to a key of each type of the plugin.
var schemaTypes = map[string][]string{
	"boolean":  {"boolean"},
	"string":   {"string"},
	"integer":  {"integer"},
	"number":   {"number"},
	"object":   {"object"},
	"array":    {"array"},
	"duration": {"string", "integer"},
	"size":     {"integer"},
}

// flatten collects the properties that hold a value by their full names.
func flatten(into map[string]property, prefix string, p property) {
	for name, child := range p.Properties {
		if child.Properties == nil {
			into[prefix+name] = child
		}
		flatten(into, prefix+name+".", child)
	}
}

// TestImageMatchesConsole checks that the names which have to agree do. build/image makes the image.
func TestImageMatchesConsole(t *testing.T) {
	spec := parse(t, "build/spec.yaml")
	plugin := parse(t, "envoy-config/"+example)
	resource, _ := wasmPlugin(t, example)
	image := find[string](t, spec, "info.image") + ":" + find[string](t, spec, "info.version")
	if !strings.HasSuffix(resource.Spec.URL, "/"+image) {
		t.Errorf("image names differ: console %s, WasmPlugin %s", image, resource.Spec.URL)
	}
	for _, field := range []string{"phase", "priority"} {
		console, errSpec := harness.Find(spec, "spec."+field)
		own, errPlugin := harness.Find(plugin, "spec."+field)
		if errSpec != nil || errPlugin != nil || console.Value != own.Value {
			t.Errorf("spec.%s differs between console and WasmPlugin", field)
		}
	}
}
