package lint

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/cmd/warmgate/internal/source"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/plugin/config/configtest"
)

// forms are files that take a configuration in the place of %.
var forms = map[string]string{
	"higress": `apiVersion: extensions.higress.io/v1alpha1
kind: WasmPlugin
metadata: {name: warmgate-0.1.0}
spec:
  url: oci://registry.llm.internal/warmgate/warmgate-higress:0.1.0
  failStrategy: FAIL_OPEN
  defaultConfig:
%`,
	"istio": `kind: EnvoyFilter
spec:
  configPatches:
  - patch:
      value:
        typed_config:
          config:
            name: warmgate
            configuration:
              "@type": type.googleapis.com/google.protobuf.StringValue
              value: |
%`,
	"envoy-gateway": `kind: EnvoyExtensionPolicy
spec:
  wasm:
  - name: warmgate
    failOpen: true
    config:
%`,
	"envoy": `resources:
- name: warmgate
  typed_config:
    config:
      root_id: warmgate
      configuration:
        "@type": type.googleapis.com/google.protobuf.StringValue
        value: |2
%`,
	"helm": `%`,
}

// fill writes a text into a form. It returns the file, and the lines that the text is in.
func fill(form, text string) (file string, first, last int) {
	before, after, _ := strings.Cut(form, "%")
	indent := strings.Repeat(" ", 18)
	if before == "" {
		indent = ""
	}
	first = strings.Count(before, "\n") + 1
	file = before + indent + strings.ReplaceAll(text, "\n", "\n"+indent) + after
	return file, first, first + strings.Count(text, "\n")
}

// TestMistakes writes what people write by mistake into files of their form: what the plugin says is said, in a line of
// the configuration.
func TestMistakes(t *testing.T) {
	jsonPlace := regexp.MustCompile(` at line \d+, column \d+`)
	tested := 0
	for _, m := range configtest.Mistakes(t, "") {
		if m.Form == "helm" && m.Verdict == "refused" {
			continue // by the chart; see TestPlanted
		}
		tested++
		text, first, last := fill(forms[m.Form], m.Text)
		f := source.NewFile("file.yaml", []byte(text))
		message, found := jsonPlace.ReplaceAllString(m.Message, ""), false
		result := File(f, Auto, true)
		for _, one := range result.Findings {
			said := one.Path + ": " + one.Text
			if one.Warning {
				said = one.Path + " " + one.Text
			}
			line := f.Position(one.At).Line
			if line < first || line > last {
				t.Errorf("%s\n%+v is in line %d", text, one, line)
			}
			asWanted := strings.Contains(strings.TrimPrefix(said, ": "), message)
			found = found || asWanted && one.Warning == (m.Verdict == "warned")
		}
		if !found || result.Configurations != 1 {
			t.Errorf("%s\ngot %+v\nwant it %s: %s", text, result, m.Verdict, message)
		}
	}
	if tested < 80 {
		t.Errorf("%d mistakes", tested)
	}
}

// TestKindsAreUsed checks that each kind of finding is one of those in the table, and that each of those is found.
func TestKindsAreUsed(t *testing.T) {
	used, known := map[string]bool{}, map[string]bool{}
	note := func(name, text string) {
		for _, found := range File(source.NewFile(name, []byte(text)), Auto, true).Findings {
			used[found.Kind] = true
			if k := slices.IndexFunc(Kinds, func(k Kind) bool { return k.Name == found.Kind }); Kinds[k].Warning &&
				!found.Warning {
				t.Errorf("%+v is no warning", found)
			}
		}
	}
	for _, m := range configtest.Mistakes(t, "") {
		text, _, _ := fill(forms[m.Form], m.Text)
		note("file.yaml", text)
	}
	for _, p := range append(plantedFiles(t), plantedEdits...) {
		note(p.file, strings.Replace(p.marked(t), "§", "", 1))
	}
	for _, k := range Kinds {
		if known[k.Name] || !used[k.Name] {
			t.Errorf("%s is there twice, or nothing is of that kind", k.Name)
		}
		known[k.Name] = true
		delete(used, k.Name)
	}
	if len(used) > 0 {
		t.Errorf("%v are in no table", used)
	}
}

// TestKindsAreDocumented compares the table of kinds with those in the documents.
func TestKindsAreDocumented(t *testing.T) {
	for _, document := range []string{"docs/command-line.md", "docs/command-line_ZH.md"} {
		_, rest, _ := strings.Cut(string(harness.ReadT(t, document)), "<!-- kinds -->\n")
		rows, _, _ := strings.Cut(rest, "<!-- /kinds -->")
		lines := strings.Split(strings.TrimSpace(rows), "\n")
		if len(lines) != 2+len(Kinds) {
			t.Errorf("%s has %d lines, want the %d kinds", document, len(lines), len(Kinds))
			continue
		}
		for i, k := range Kinds {
			want := "| `" + k.Name + "` | "
			if !strings.HasSuffix(document, "_ZH.md") {
				want += k.Meaning + " |"
			}
			if !strings.HasPrefix(lines[2+i], want) {
				t.Errorf("%s has %s, want %s", document, lines[2+i], want)
			}
		}
	}
}
