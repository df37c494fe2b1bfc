package doctest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// chartPage is the document on the Helm chart.
const chartPage = "docs/helm.md"

// TestChartValues compares the table of values of the Helm chart with its file of values. A row may have several.
func TestChartValues(t *testing.T) {
	var file yaml.Node
	if err := yaml.Unmarshal([]byte(read(t, "deploy/helm/values.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	var want, have [][2]string
	var walk func(prefix string, n *yaml.Node)
	walk = func(prefix string, n *yaml.Node) {
		labels := prefix == "istio.selector." || prefix == "observability.labels."
		if n.Kind == yaml.MappingNode && len(n.Content) > 0 && !labels {
			for i := 0; i < len(n.Content); i += 2 {
				walk(prefix+n.Content[i].Value+".", n.Content[i+1])
			}
			return
		}
		var value any
		if err := n.Decode(&value); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, [2]string{strings.TrimSuffix(prefix, "."), string(text)})
	}
	walk("", file.Content[0])
	for _, row := range open(t, chartPage).marked("values").rows[1:] {
		names, defaults := strings.Split(row[0], ", "), strings.Split(row[1], "`, `")
		if len(names) != len(defaults) {
			t.Errorf("%s: %d defaults", row[0], len(defaults))
			continue
		}
		for i := range names {
			have = append(have, [2]string{strings.Trim(names[i], "`"), strings.Trim(defaults[i], "`")})
		}
	}
	if !slices.Equal(have, want) {
		t.Errorf("%s has\n%q\nvalues.yaml has\n%q", chartPage, have, want)
	}
}
