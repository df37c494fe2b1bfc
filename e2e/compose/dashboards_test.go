package compose

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/internal/vllmsim"
	"github.com/warmgate/warmgate/internal/vllmsim/vllmsimtest"
)

// dashboard is what is read of Grafana's.
type dashboard struct {
	Title      string
	Panels     []struct{ Targets []target }
	Templating struct {
		List []struct {
			Name, Type string
			Query      any
		}
	}
}

type target struct{ Expr, LegendFormat string }

// statistics returns the labels of each of the plugin's statistics, by the table in docs/metrics-reference.md.
func statistics(t *testing.T) map[string][]string {
	t.Helper()
	row := regexp.MustCompile("(?m)^\\| `(warmgate_\\w+)` \\| \\w+ \\|([^|]*)\\|")
	found := map[string][]string{}
	for _, m := range row.FindAllStringSubmatch(string(harness.ReadT(t, "docs/metrics-reference.md")), -1) {
		found[m[1]] = strings.FieldsFunc(m[2], func(r rune) bool { return strings.ContainsRune("`, ", r) })
	}
	return found
}

// TestDashboards parses what the panels ask: statistics that are documented, with their labels, or metrics of a server
// or of Envoy.
func TestDashboards(t *testing.T) {
	known, page := statistics(t), harness.Get(t, vllmsimtest.StartT(t, vllmsim.Config{}).URL()+"/metrics").Body
	known["up"] = []string{} // of Prometheus
	known["envoy_cluster_membership_total"] = []string{"envoy_cluster_name"}
	known["envoy_cluster_membership_healthy"] = []string{"envoy_cluster_name"}
	files, err := filepath.Glob(harness.PathT(t, "deploy/observability/grafana/*.json"))
	if err != nil {
		t.Fatal(err)
	}
	asked := map[string]bool{}
	for _, file := range files {
		var d dashboard
		text := harness.ReadT(t, "deploy/observability/grafana/"+filepath.Base(file))
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatal(err)
		}
		for _, v := range d.Templating.List {
			if query, ok := v.Query.(string); v.Type == "query" && !(ok && exists(known, v.Name, query)) {
				t.Errorf("%s: the variable %s asks for %v", d.Title, v.Name, v.Query)
			}
		}
		for _, panel := range d.Panels {
			for _, target := range panel.Targets {
				for name, labels := range selected(t, target) {
					asked[name] = true
					has := append([]string{"instance", "job", "le"}, known[name]...)
					if known[name] == nil && !strings.Contains(page, "# TYPE "+name+" ") {
						t.Errorf("%s: there is no %s", d.Title, name)
					}
					for _, label := range labels {
						if !slices.Contains(has, label) {
							t.Errorf("%s: %s has no label %s: %s", d.Title, name, label, target.Expr)
						}
					}
				}
			}
		}
	}
	for name := range known {
		if !asked[name] && !slices.Contains(unseen, name) {
			t.Errorf("no dashboard shows %s", name)
		}
	}
	if len(files) < 9 || len(known) < 50 {
		t.Errorf("%d dashboards, %d statistics", len(files), len(known))
	}
}

// unseen are statistics that no dashboard has to show: of which others say more, which are there for one release more,
// or only where callers of the admission API are told apart.
var unseen = []string{
	"warmgate_prompt_tokens_total", "warmgate_cached_tokens_total", "warmgate_ejections_total",
	"warmgate_config_kept_rules", "warmgate_unpriced_tokens_total", "warmgate_api_caller_calls_total",
}

// exists says whether the query of a variable asks for a label that there is.
func exists(known map[string][]string, name, query string) bool {
	m := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`).FindStringSubmatch(query)
	return m != nil && m[2] == name && slices.Contains(known[m[1]], name)
}

// selected returns the metrics in a query, histograms without the end of the name, and for each the labels by which it
// is selected and grouped.
func selected(t *testing.T, of target) map[string][]string {
	t.Helper()
	expression := strings.NewReplacer("$__rate_interval", "1m").Replace(of.Expr)
	tree, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	found := map[string][]string{}
	parser.Inspect(tree, func(n parser.Node, path []parser.Node) error {
		v, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		name := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(v.Name, "")
		labels := found[name]
		for _, m := range v.LabelMatchers {
			if m.Name != "__name__" {
				labels = append(labels, m.Name)
			}
		}
		found[name] = append(labels, grouped(path, n)...)
		return nil
	})
	if len(found) == 1 { // else the label may be another metric's
		for name := range found {
			for _, m := range regexp.MustCompile(`{{(\w+)}}`).FindAllStringSubmatch(of.LegendFormat, -1) {
				found[name] = append(found[name], m[1])
			}
		}
	}
	return found
}

// grouped returns the labels by which a node's labels are grouped above it. Of what an expression only has to match, by
// "and" or "unless", no labels go further up, and below a call that makes one it need not be there.
func grouped(path []parser.Node, n parser.Node) (labels []string) {
	for i, above := range path {
		below := n
		if i+1 < len(path) {
			below = path[i+1]
		}
		switch a := above.(type) {
		case *parser.AggregateExpr:
			labels = append(labels, a.Grouping...)
		case *parser.Call:
			if strings.HasPrefix(a.Func.Name, "label_") {
				made := a.Args[1].(*parser.StringLiteral).Val
				labels = slices.DeleteFunc(labels, func(l string) bool { return l == made })
			}
		case *parser.BinaryExpr:
			if (a.Op == parser.LAND || a.Op == parser.LUNLESS) && below == a.RHS {
				labels = nil
			}
		}
	}
	return labels
}
