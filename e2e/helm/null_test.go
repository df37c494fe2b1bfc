package helm

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
)

// paths returns the way to each value below one, and to each section.
func paths(v any) (list [][]any) {
	below := func(key, v any) {
		list = append(list, []any{key})
		for _, p := range paths(v) {
			list = append(list, append([]any{key}, p...))
		}
	}
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			below(key, v[key])
		}
	case []any:
		for i := range v {
			below(i, v[i])
		}
	}
	return list
}

// copied returns a copy of values.
func copied(t *testing.T, values map[string]any) map[string]any {
	t.Helper()
	return given(t, string(inJSON(t, values)))
}

// allValues are the chart's, with what they leave open for a gateway: a copy.
func allValues(t *testing.T, c *chart.Chart, gateway string) map[string]any {
	t.Helper()
	values := copied(t, c.Values)
	values["gateway"] = gateway
	at(t, values, "image").(map[string]any)["registry"] = registry
	at(t, values, "istio", "route").(map[string]any)["hosts"] = []any{"llm.example.com"}
	return values
}

// TestNull empties each value and each section, as a file does in which what is below a key is a comment: it is refused
// by its name, and nothing is rendered that could be for more than was meant.
func TestNull(t *testing.T) {
	c := load(t)
	all := paths(allValues(t, c, "istio"))
	if len(all) < 40 {
		t.Fatalf("%d values", len(all))
	}
	for _, gateway := range []string{"istio", "envoy-gateway", "higress"} {
		for _, path := range all {
			values := allValues(t, c, gateway)
			if gateway == "higress" {
				rule := given(t, "{ingress: [a], config: {lb_policy: prefix_cache}}")
				at(t, values, "higress").(map[string]any)["matchRules"] = []any{rule}
			}
			if slices.Equal(path, []any{"observability", "labels", "release"}) {
				continue // a map of one's own: null takes the label away
			}
			last, key := len(path)-1, fmt.Sprintf("%v", path[len(path)-1])
			switch section := at(t, values, path[:last]...).(type) {
			case map[string]any:
				section[key] = nil
			case []any:
				section[path[last].(int)] = nil
			}
			if slices.Equal(path, []any{"istio", "selector", "istio"}) {
				key = "selector" // then it has none
			}
			text, _, err := template(c, values)
			if err == nil || !strings.Contains(err.Error(), "specifications of the schema") ||
				!strings.Contains(err.Error(), key) {
				t.Errorf("%s: %v is null: %v\n%.200s", gateway, path, err, text)
			}
		}
	}
}

// TestEmptyScope checks that what the plugin is for is never empty, also where Helm is told to skip the schema.
func TestEmptyScope(t *testing.T) {
	c := load(t)
	c.Schema = nil
	for _, values := range []string{"services: []", "selector: {istio: null}"} {
		_, _, err := template(c, complete(given(t, "gateway: istio\nistio: {"+values+"}")))
		if err == nil || !strings.Contains(err.Error(), "istio.services and istio.selector say") {
			t.Errorf("%s: %v", values, err)
		}
	}
}
