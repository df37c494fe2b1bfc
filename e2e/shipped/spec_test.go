package shipped

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/lb/setting"
	"github.com/warmgate/warmgate/plugin/config"
)

var update = flag.Bool("update", false, "rewrite the keys in build/spec.yaml")

// The lines around the keys of each schema in build/spec.yaml.
const (
	specBegin = "        # Written by go test ./e2e/shipped -run TestSpecIsGenerated -update\n"
	specEnd   = "        # End of what is written\n"
)

// TestSpecIsGenerated compares the keys in build/spec.yaml with config.Keys, or rewrites them.
func TestSpecIsGenerated(t *testing.T) {
	const name = "build/spec.yaml"
	have := string(harness.ReadT(t, name))
	want, rest := "", have
	for {
		head, tail, ok := strings.Cut(rest, specBegin)
		want += head
		if !ok {
			break
		}
		_, rest, ok = strings.Cut(tail, specEnd)
		if !ok {
			t.Fatalf("%s: the keys do not end", name)
		}
		want += specBegin + specKeys(t) + specEnd
	}
	if n := strings.Count(want, specBegin); n != 2 {
		t.Fatalf("%s: %d schemas, want 2", name, n)
	}
	switch {
	case have == want:
	case !*update:
		t.Errorf("%s is old; run: go test ./e2e/shipped -run %s -update", name, t.Name())
	default:
		if err := os.WriteFile(harness.PathT(t, name), []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// specNode is a key or a section of the console's form.
type specNode struct {
	name     string
	key      *setting.Key // nil for a section
	children []*specNode
}

// child returns the child of the name, which it makes if there is none.
func (n *specNode) child(name string) *specNode {
	for _, c := range n.children {
		if c.name == name {
			return c
		}
	}
	c := &specNode{name: name}
	n.children = append(n.children, c)
	return c
}

// specKeys writes down the keys that have an effect in Higress, as members of a schema's properties.
func specKeys(t *testing.T) string {
	t.Helper()
	top := &specNode{}
	for _, k := range config.Keys() {
		if k.Setting.Title.EN == "" {
			if !strings.HasPrefix(k.Name, "_rules_") && !strings.HasPrefix(k.Meaning, "Stock Envoy: ") {
				t.Errorf("%s has no title", k.Name)
			}
			continue
		}
		n := top
		for _, part := range strings.Split(k.Name, ".") {
			n = n.child(part)
		}
		n.key = &k.Setting
	}
	sections := map[string]setting.Section{}
	for _, s := range config.Sections() {
		sections[s.Name] = s
	}
	var b strings.Builder
	for _, n := range top.children {
		n.write(t, &b, sections, "", 8)
	}
	return b.String()
}

// write writes down a node whose name begins with prefix.
func (n *specNode) write(
	t *testing.T, b *strings.Builder, sections map[string]setting.Section, prefix string, indent int,
) {
	t.Helper()
	line := func(format string, args ...any) {
		b.WriteString(folded(strings.Repeat(" ", indent)+fmt.Sprintf(format, args...), indent+2) + "\n")
	}
	line("%s:", n.name)
	indent += 2
	if n.key != nil {
		line("type: %s", specType(n.key))
		meaning := n.key.Meaning
		if n.key.NoEffect != "" { // as in docs/configuration.md
			meaning.EN = "No effect: " + strings.TrimPrefix(meaning.EN, "Higress: ")
			meaning.ZH = "无作用：" + strings.TrimPrefix(meaning.ZH, "Higress：")
		}
		specTexts(line, n.key.Title, meaning)
		specLimits(line, n.key)
		return
	}
	s, ok := sections[prefix+n.name]
	if !ok {
		t.Errorf("%s%s: there is no such section", prefix, n.name)
	}
	line("type: object")
	specTexts(line, s.Title, s.Meaning)
	line("properties:")
	for _, c := range n.children {
		c.write(t, b, sections, prefix+n.name+".", indent+2)
	}
}

// folded breaks a line of YAML that is wider than 120 characters within its text: at a space, for which YAML reads the
// line break, or behind a Chinese punctuation mark, where a backslash keeps YAML from reading a space. The rest is
// indented by indent columns. The text has to be in double quotes if it contains such a mark.
func folded(line string, indent int) string {
	const width = 120
	text := []rune(line)
	if len(text) <= width {
		return line
	}
	for i := width; i > width/2; i-- {
		end, next := "", i
		switch {
		case text[i] == ' ':
			next++
		case strings.ContainsRune("，；。：、）", text[i-1]) && i < width:
			end = "\\"
		default:
			continue
		}
		return string(text[:i]) + end + "\n" + folded(strings.Repeat(" ", indent)+string(text[next:]), indent)
	}
	return line
}

type specLine func(format string, args ...any)

func specTexts(line specLine, title, meaning setting.Words) {
	line("title: %s", title.EN)
	line("x-title-i18n: {zh-CN: %s}", title.ZH)
	line("description: %s", specText(meaning.EN, "Higress: ", "."))
	line("x-description-i18n: {zh-CN: %s}", specText(meaning.ZH, "Higress：", "。"))
}

// specText is a meaning without Markdown, and without the name of the gateway that shows it.
func specText(s, gateway, end string) string {
	return strconv.Quote(strings.ReplaceAll(strings.TrimPrefix(s, gateway), "`", "") + end)
}

// specType is the type of a key in the schema. A duration has the type of its default.
func specType(k *setting.Key) string {
	switch k.Type {
	case setting.Boolean:
		return "boolean"
	case setting.Integer, setting.Seconds, setting.Size:
		return "integer"
	case setting.Number:
		return "number"
	case setting.Object:
		return "object"
	case setting.Array:
		return "array"
	case setting.Duration:
		if !strings.HasPrefix(k.Default, `"`) {
			return "integer"
		}
	}
	return "string"
}

// specEntry is the schema of an entry of an object or of a list.
func specEntry(k *setting.Key) string {
	switch {
	case k.Entry == "any":
		return "true"
	case k.Entry != "":
		return `{"type": "` + k.Entry + `"}`
	case k.Of == nil && k.Type == setting.Array:
		return `{type: "string"}`
	case k.Of == nil:
		return `{"type": "number"}`
	}
	var members, needed []string
	for i := range k.Of {
		m := &k.Of[i]
		if m.Required {
			needed = append(needed, strconv.Quote(m.Name))
		}
		schema := fmt.Sprintf(`%q: {"type": %q`, m.Name, specType(m))
		switch m.Type {
		case setting.Text:
			schema += fmt.Sprintf(`, "minLength": 1, "maxLength": %v`, m.Max)
		case setting.Integer, setting.Number:
			schema += fmt.Sprintf(`, "minimum": %v, "maximum": %v`, m.Least(), m.Max)
		}
		if m.Default != "" {
			schema += `, "default": ` + m.Default
		}
		members = append(members, schema+"}")
	}
	required := ""
	if needed != nil {
		required = `, "required": [` + strings.Join(needed, ", ") + `]`
	}
	return `{"type": "object", "properties": {` + strings.Join(members, ", ") + `}` + required + `}`
}

// specLimits writes down what a key accepts, and its default.
func specLimits(line specLine, k *setting.Key) {
	number := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	switch kind := specType(k); {
	case k.Type == setting.Choice:
		line(`enum: ["%s"]`, strings.Join(k.Choices, `", "`))
	case kind == "object":
		line("additionalProperties: %s", specEntry(k))
	case kind == "array":
		line("items: %s", specEntry(k))
	case kind == "integer" || kind == "number":
		line("minimum: %s", number(k.Least()))
		line("maximum: %s", number(k.Max))
	case k.Type == setting.Text && !k.Loose:
		line("minLength: 1")
		line("maxLength: %s", number(cmp.Or(k.Max, setting.MaxText)))
	}
	if k.Default != "" {
		line("default: %s", k.Default)
	}
}
