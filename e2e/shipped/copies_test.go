package shipped

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/wasmplugin"
	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/plugin/config"
)

// copied is a file with a configuration of the plugin that users copy.
type copied struct {
	name string
	host config.Host
	read func(t *testing.T, text []byte) (raw []byte)
}

// copies returns all of them.
func copies(t *testing.T) (list []copied) {
	t.Helper()
	for pattern, of := range map[string]copied{
		"envoy-config/warmgate*.yaml":            {host: config.Envoy, read: ofText},
		"envoy-config/higress-wasmplugin-*.yaml": {host: config.Higress, read: ofHigress},
		"deploy/higress/warmgate.yaml":           {host: config.Higress, read: ofHigress},
		"deploy/istio/warmgate.yaml":             {host: config.Envoy, read: ofText},
		"deploy/istio/traffic-extension.yaml":    {host: config.Envoy, read: ofExtension},
		"deploy/envoy-gateway/whole-filter.yaml": {host: config.Envoy, read: ofText},
		"deploy/envoy-gateway/warmgate.yaml":     {host: config.Envoy, read: ofPolicy},
		"deploy/envoy-gateway/backends.yaml":     {host: config.Envoy, read: ofPolicy},
	} {
		files, err := filepath.Glob(harness.PathT(t, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			of.name = filepath.Dir(pattern) + "/" + filepath.Base(file)
			list = append(list, of)
		}
	}
	return list
}

// decoded decodes the first document of a YAML text.
func decoded(t *testing.T, text []byte) *yaml.Node {
	t.Helper()
	doc := new(yaml.Node)
	if err := yaml.Unmarshal(text, doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// documents decodes all documents of a YAML text.
func documents(t *testing.T, text []byte) (list []*yaml.Node) {
	t.Helper()
	for _, part := range strings.Split(string(text), "\n---\n") {
		list = append(list, decoded(t, []byte(part)))
	}
	return list
}

// extensionPolicy returns the EnvoyExtensionPolicy in a YAML text.
func extensionPolicy(t *testing.T, text []byte) *yaml.Node {
	t.Helper()
	for _, doc := range documents(t, text) {
		if find[string](t, doc, "kind") == "EnvoyExtensionPolicy" {
			return doc
		}
	}
	t.Fatal("no EnvoyExtensionPolicy")
	return nil
}

// ofText reads the only text of the type google.protobuf.StringValue, which is what Envoy hands to the plugin.
func ofText(t *testing.T, text []byte) []byte {
	t.Helper()
	var doc any
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	var found []string
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if v["@type"] == "type.googleapis.com/google.protobuf.StringValue" {
				found = append(found, v["value"].(string))
			}
			for _, member := range v {
				walk(member)
			}
		case []any:
			for _, entry := range v {
				walk(entry)
			}
		}
	}
	if walk(doc); len(found) != 1 {
		t.Fatalf("%d configurations", len(found))
	}
	return harness.Own([]byte(found[0]))
}

func ofHigress(t *testing.T, text []byte) []byte {
	_, raw := resource(t, text)
	return raw
}

// ofPolicy reads the configuration in an EnvoyExtensionPolicy.
func ofPolicy(t *testing.T, text []byte) []byte {
	return ofObject(t, extensionPolicy(t, text), "spec.wasm[0].config")
}

// ofExtension reads the configuration in a TrafficExtension.
func ofExtension(t *testing.T, text []byte) []byte {
	return ofObject(t, decoded(t, text), "spec.wasm.pluginConfig")
}

func ofObject(t *testing.T, doc *yaml.Node, path string) []byte {
	raw, err := json.Marshal(find[map[string]any](t, doc, path))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// parts returns all configurations of a set: the global one and those of rules, in a map of any shape.
func parts(t *testing.T, raw []byte) (list []map[string]any) {
	t.Helper()
	var whole map[string]any
	if err := json.Unmarshal(raw, &whole); err != nil {
		t.Fatal(err)
	}
	rules, _ := whole["_rules_"].([]any)
	if delete(whole, "_rules_"); len(whole) > 0 {
		list = append(list, whole)
	}
	for _, r := range rules {
		list = append(list, r.(map[string]any))
	}
	return list
}

// lacks is what a message says of a policy that needs more than its name: where it chooses, and among what.
var lacks = regexp.MustCompile(`lb_type|lb_config\.(targets|mode|service_list|api|endpoint)\b`)

// TestOneLineChanged writes each policy into each place of each file in which there is one, as somebody does who tries
// another policy: the plugin takes the file, and chooses by that policy. Refused are only policies that choose among
// something else than the file has, with a message that says what they need.
func TestOneLineChanged(t *testing.T) {
	line := regexp.MustCompile(`("?lb_policy"?: "?)(\w+)`)
	changed := 0
	for _, file := range copies(t) {
		text := harness.ReadT(t, file.name)
		places := line.FindAllSubmatchIndex(text, -1)
		if len(places) == 0 {
			t.Errorf("%s has no policy", file.name)
		}
		for _, at := range places {
			own := string(text[at[4]:at[5]])
			for _, d := range policy.All() {
				for _, name := range append([]string{d.Name}, d.Aliases...) {
					next := slices.Concat(text[:at[4]], []byte(name), text[at[5]:])
					_, err := config.Parse(file.read(t, next), file.host)
					changed++
					if err == nil {
						continue
					}
					told := len(lacks.FindAllString(err.Error(), -1)) >= strings.Count(err.Error(), "\n  ")
					if !told || !needsMore(own) && !needsMore(name) {
						t.Errorf("%s: %s in the place of %s: %v", file.name, name, own, err)
					}
				}
			}
		}
	}
	if changed < 200 {
		t.Errorf("%d changes", changed)
	}
}

// needsMore reports whether a policy needs more than its name: clusters to choose among, or budgets.
func needsMore(name string) bool {
	d := policy.Describe(name)
	return d.Among == policy.Clusters || d.Needs.Budget || name == "cluster_hash"
}

// TestNoUnitIsWritten checks that the unit of load is the default wherever no cap is in tokens, on every gateway.
func TestNoUnitIsWritten(t *testing.T) {
	for _, file := range copies(t) {
		for _, part := range parts(t, file.read(t, harness.ReadT(t, file.name))) {
			settings, _ := part["lb_config"].(map[string]any)
			if unit := settings["unit"]; unit != nil && settings["max_inflight"] == nil {
				t.Errorf("%s: unit is %v, want the default", file.name, unit)
			}
		}
	}
}

// TestNoCapWithoutQueue checks that clients of a file that was copied are not answered 429 at once: what caps has a
// queue. Budgets refuse what is over them by their nature.
func TestNoCapWithoutQueue(t *testing.T) {
	caps := 0
	for _, file := range copies(t) {
		for _, part := range parts(t, file.read(t, harness.ReadT(t, file.name))) {
			settings, _ := part["lb_config"].(map[string]any)
			if settings["max_inflight"] == nil && settings["max_inflight_tokens"] == nil && settings["push"] == nil {
				continue
			}
			caps++
			if settings["queue"] == nil {
				t.Errorf("%s: a cap without a queue: %v", file.name, settings)
			}
		}
	}
	if caps < 5 {
		t.Errorf("%d caps", caps)
	}
}

// shared are the files for gateways that others use, too.
func shared(name string) bool {
	return strings.HasPrefix(name, "deploy/") || strings.Contains(name, "higress-wasmplugin-")
}

// TestOnlyNamedServices checks that the plugin is for named services or routes alone, on each gateway that others use,
// too: a request that nobody has named finds no configuration.
func TestOnlyNamedServices(t *testing.T) {
	const (
		route   = "httproute/default/shop/rule/0/match/0/shop_test"
		cluster = "outbound|80||shop.default.svc.cluster.local"
		host    = "shop.test"
	)
	for _, file := range copies(t) {
		if !shared(file.name) {
			continue
		}
		text := harness.ReadT(t, file.name)
		if strings.Contains(string(text), "kind: EnvoyExtensionPolicy\n") {
			continue // TestOnlyNamedRoutes
		}
		set, err := config.Parse(file.read(t, text), file.host)
		if err != nil {
			t.Fatalf("%s: %v", file.name, err)
		}
		if c := set.Match(route, cluster, host); c != nil {
			t.Errorf("%s: what nobody has named has %+v", file.name, c)
		}
		named := set.Match(chatRoute, chatCluster, "")
		for _, at := range [][2]string{
			{"ai-route-chat.internal", ""},
			{"", "outbound|8000||vllm.default.svc.cluster.local"},
			{"httproute/default/llm/rule/0/match/0/*", ""},
		} {
			if named == nil {
				named = set.Match(at[0], at[1], "")
			}
		}
		if named == nil {
			t.Errorf("%s: nothing is named", file.name)
		}
	}
	for _, file := range []string{"route.yaml", "service.yaml"} {
		if strings.Contains(string(harness.ReadT(t, "deploy/istio/"+file)), `"*"`) {
			t.Errorf("deploy/istio/%s is for every host", file)
		}
	}
}

// TestOnlyNamedRoutes does so with the policies of Envoy Gateway, which are for the routes in their targetRefs. Only
// what the API of Envoy Gateway has for whole gateways is for a Gateway.
func TestOnlyNamedRoutes(t *testing.T) {
	kinds := map[string]string{
		"ClientTrafficPolicy": "Gateway", "BackendTrafficPolicy": "HTTPRoute", "EnvoyExtensionPolicy": "HTTPRoute",
	}
	for _, doc := range documents(t, harness.ReadT(t, "deploy/envoy-gateway/warmgate.yaml")) {
		kind := find[string](t, doc, "kind")
		want, ok := kinds[kind]
		if !ok {
			continue // EnvoyPatchPolicy: its patches are of the plugin's filter
		}
		delete(kinds, kind)
		for _, ref := range find[[]struct{ Kind string }](t, doc, "spec.targetRefs") {
			if ref.Kind != want {
				t.Errorf("%s is for a %s, want one for each %s", kind, ref.Kind, want)
			}
		}
	}
	if len(kinds) > 0 {
		t.Errorf("there are no %v", kinds)
	}
}

// TestConsoleShowsDocuments checks that the console shows each resource in a document: what is copied from there, too.
func TestConsoleShowsDocuments(t *testing.T) {
	shown := 0
	for _, name := range []string{"configuration.md", "configuration_ZH.md", "higress.md", "higress_ZH.md"} {
		blocks := regexp.MustCompile("(?ms)^```yaml\n(?:# [^\n]*\n)?(apiVersion: extensions\\.higress\\.io.*?)^```$")
		for _, m := range blocks.FindAllSubmatch(harness.ReadT(t, "docs/"+name), -1) {
			r, err := wasmplugin.Parse(m[1])
			if err == nil {
				err = r.Shown()
			}
			if err != nil {
				t.Errorf("docs/%s: %v", name, err)
			}
			shown++
		}
	}
	if shown < 4 {
		t.Errorf("%d resources", shown)
	}
}
