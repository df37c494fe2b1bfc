package shipped

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/lb/setting"
	"github.com/warmgate/warmgate/plugin/config"
)

const chart = "deploy/helm"

// TestChartFiles compares the resources in the Helm chart with those of deploy/, or copies them again. They are no
// links, so that the chart is whole wherever it is read from.
func TestChartFiles(t *testing.T) {
	folder := harness.PathT(t, chart+"/files")
	copies := 0
	err := fs.WalkDir(os.DirFS(folder), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		copies++
		have, want := string(harness.ReadT(t, chart+"/files/"+name)), string(harness.ReadT(t, "deploy/"+name))
		switch {
		case !entry.Type().IsRegular():
			t.Errorf("%s is no file", name)
		case have == want:
		case !*update:
			t.Errorf("deploy/%s has changed; run: go test ./e2e/shipped -run Chart -update", name)
		default:
			return os.WriteFile(folder+"/"+name, []byte(want), 0o644)
		}
		return nil
	})
	if err != nil || copies == 0 {
		t.Fatalf("%d files, %v", copies, err)
	}
}

// TestChartVersion compares the versions in the chart with the one of the artifacts.
func TestChartVersion(t *testing.T) {
	version := find[string](t, parse(t, "build/spec.yaml"), "info.version")
	for name, where := range map[string][]string{
		"/Chart.yaml": {"version", "appVersion"}, "/values.yaml": {"image.tag"},
	} {
		for _, path := range where {
			if v := find[string](t, parse(t, chart+name), path); v != version {
				t.Errorf("%s%s: %s is %s, want %s", chart, name, path, v, version)
			}
		}
	}
}

// chartBegin is the line behind which the schema of the chart's values is generated, to the end of its definitions.
const chartBegin = `    "generated": {"$comment": "What follows: go test ./e2e/shipped -run Chart -update"},` + "\n"

// TestChartSchemaIsGenerated compares what the schema of the chart's values says of the plugin's configuration with
// config.Keys, or writes it anew.
func TestChartSchemaIsGenerated(t *testing.T) {
	const name = chart + "/values.schema.json"
	have := string(harness.ReadT(t, name))
	head, _, ok := strings.Cut(have, chartBegin)
	if !ok {
		t.Fatalf("%s has no line %s", name, chartBegin)
	}
	var plugin, conditions chartSchema
	for _, k := range config.Keys() {
		if condition, ok := strings.CutPrefix(k.Name, "_rules_[]."); ok {
			conditions.add(condition, `{"$ref": "#/definitions/condition"}`)
		} else if k.Name != "_rules_" {
			plugin.add(k.Name, chartKey(t, &k.Setting))
		}
	}
	plugin.add("_plugin_id_", `{"type": "string"}`)
	want := head + chartBegin
	rules := plugin.clone()
	rules.add("_rules_", `{"type": "array", "items": {"$ref": "#/definitions/rule"}}`)
	rule := plugin.clone()
	rule.children = append(rule.children, conditions.children...)
	for _, d := range []struct {
		name   string
		schema *chartSchema
		end    string
	}{{"config", rules, ","}, {"rule", rule, "\n  }\n}"}} {
		want += fmt.Sprintf("    %q: ", d.name) + d.schema.text("    ") + d.end + "\n"
	}
	if !json.Valid([]byte(want)) {
		t.Fatalf("no JSON:\n%s", want)
	}
	switch {
	case have == want:
	case !*update:
		t.Errorf("%s is old; run: go test ./e2e/shipped -run Chart -update", name)
	default:
		if err := os.WriteFile(harness.PathT(t, name), []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// chartSchema is a key, or a section that accepts no others than its children.
type chartSchema struct {
	name, leaf string // the schema of a key; "" for a section
	children   []*chartSchema
}

// add adds a key by its whole name.
func (s *chartSchema) add(name, leaf string) {
	first, rest, section := strings.Cut(name, ".")
	if !section {
		s.children = append(s.children, &chartSchema{name: name, leaf: leaf})
		return
	}
	at := slices.IndexFunc(s.children, func(c *chartSchema) bool { return c.name == first })
	if at < 0 {
		at = len(s.children)
		s.children = append(s.children, &chartSchema{name: first})
	}
	s.children[at].add(rest, leaf)
}

// clone returns a section to which more can be added.
func (s *chartSchema) clone() *chartSchema { return &chartSchema{children: slices.Clone(s.children)} }

// text returns the schema, a line for each key.
func (s *chartSchema) text(indent string) string {
	if s.leaf != "" {
		return s.leaf
	}
	var members []string
	for _, c := range s.children {
		members = append(members, fmt.Sprintf("%s  %q: %s", indent, c.name, c.text(indent+"  ")))
	}
	return "{\"type\": \"object\", \"additionalProperties\": false, \"properties\": {\n" +
		strings.Join(members, ",\n") + "\n" + indent + "}}"
}

// chartKey is the schema of a key: what it accepts on any gateway, as far as that can be said of one key alone.
func chartKey(t *testing.T, k *setting.Key) string {
	t.Helper()
	schema := map[string]any{}
	switch {
	case k.Loose: // what ai-load-balancer accepts
		schema["type"] = []string{"string", "number", "boolean", "null"}
	case k.Type == setting.Boolean:
		schema["type"] = "boolean"
	case k.Type == setting.Integer, k.Type == setting.Seconds:
		schema["type"], schema["minimum"], schema["maximum"] = "integer", k.Min, k.Max
	case k.Type == setting.Number:
		schema["type"], schema["minimum"], schema["maximum"] = "number", k.Least(), k.Max
	case k.Type == setting.Duration, k.Type == setting.Size: // bounds are those of numbers, not of texts
		schema["type"], schema["minimum"], schema["maximum"] = []string{"number", "string"}, k.Min, k.Max
	case k.Type == setting.Choice:
		schema["enum"] = k.Choices
	case k.Type == setting.Text:
		schema["type"], schema["minLength"] = "string", 1
	case k.Type == setting.Secret:
		schema["type"] = "string"
	case k.Type == setting.Object:
		schema["type"] = "object"
	case k.Type == setting.Array && k.Entry == "string": // one alone, too
		schema["type"] = []string{"array", "string"}
	case k.Type == setting.Array:
		schema["type"] = "array"
	default:
		t.Fatalf("%s: type %d", k.Name, k.Type)
	}
	text, err := json.Marshal(schema)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
