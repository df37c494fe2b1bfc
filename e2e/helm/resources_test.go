package helm

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/plugin/config"
)

// text writes a resource.
func text(t *testing.T, r resource) []byte {
	t.Helper()
	out, err := yaml.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// texts writes resources.
func texts(t *testing.T, list []resource) string {
	t.Helper()
	var b strings.Builder
	for _, r := range list {
		fmt.Fprintf(&b, "---\n%s", text(t, r))
	}
	return b.String()
}

// find returns the one resource of a kind with a name.
func find(t *testing.T, list []resource, kind, name string) resource {
	t.Helper()
	var found []resource
	for _, r := range list {
		if r["kind"] == kind && at(t, r, "metadata", "name") == name {
			found = append(found, r)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d of kind %s with the name %s in\n%s", len(found), kind, name, texts(t, list))
	}
	return found[0]
}

// at returns what is at a path of keys and indices; nil if it is not there.
func at(t *testing.T, v any, path ...any) any {
	t.Helper()
	for _, p := range path {
		switch p := p.(type) {
		case int:
			v = v.([]any)[p]
		case string:
			m, ok := v.(map[string]any)
			if !ok {
				t.Fatalf("%v leads to %v", path, v)
			}
			v = m[p]
		}
	}
	return v
}

// want compares what is at a path.
func want(t *testing.T, r resource, value any, path ...any) {
	t.Helper()
	if got := at(t, r, path...); !reflect.DeepEqual(got, value) {
		t.Errorf("%s: %v is %v, want %v", r["kind"], path, got, value)
	}
}

// pluginOf returns the plugin's configuration in the resources of Istio or Envoy Gateway, as JSON.
func pluginOf(t *testing.T, list []resource) []byte {
	t.Helper()
	for _, r := range list {
		if at(t, r, "metadata", "name") != "warmgate" {
			continue
		}
		switch r["kind"] {
		case "EnvoyFilter":
			value := at(t, r, "spec", "configPatches", 0, "patch", "value", "typed_config", "config", "configuration",
				"value")
			return []byte(value.(string))
		case "TrafficExtension":
			return inJSON(t, at(t, r, "spec", "wasm", "pluginConfig"))
		case "EnvoyExtensionPolicy":
			return inJSON(t, at(t, r, "spec", "wasm", 0, "config"))
		}
	}
	t.Fatalf("no configuration in\n%s", texts(t, list))
	return nil
}

func inJSON(t *testing.T, v any) []byte {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// withoutConfig empties the plugin's configuration in resources.
func withoutConfig(t *testing.T, list []resource) []resource {
	t.Helper()
	for _, r := range list {
		if at(t, r, "metadata", "name") != "warmgate" {
			continue
		}
		switch r["kind"] {
		case "EnvoyFilter":
			delete(at(t, r, "spec", "configPatches", 0, "patch", "value", "typed_config", "config").(map[string]any),
				"configuration")
		case "EnvoyExtensionPolicy":
			delete(at(t, r, "spec", "wasm", 0).(map[string]any), "config")
		}
	}
	return list
}

// parsed has the plugin for stock Envoy read its configuration, which must be good as a whole.
func parsed(t *testing.T, raw []byte) *config.Set {
	t.Helper()
	set, err := config.Parse(raw, config.Envoy)
	if err != nil || len(set.Warnings()) > 0 {
		t.Fatalf("%v %q\n%s", err, set.Warnings(), raw)
	}
	return set
}
