package observability

import (
	"encoding/json"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
)

// panel is a query of a dashboard, as build/dashboards prints it.
type panel struct {
	Dashboard, Panel, Expr, When, Needs string
	Labels                              []string
}

// given is what panels need that TestFaults has.
var given = []string{
	"", "lb_config.prices is configured", "lb_config.prices is configured, and tenants are told apart",
	"a queue is configured", "a queue is configured, and every server has a cap", "requests are counted in Redis",
	"Redis has failed", "a policy reads metrics of engines", "prefix_cache is in force",
	"prefix_cache is in force, and servers report cached tokens",
}

func panels(t *testing.T) (list []panel) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "run", ".", "-queries")
	command.Dir = harness.PathT(t, "build/dashboards")
	out, err := command.Output()
	if err != nil || json.Unmarshal(out, &list) != nil || len(list) < 100 {
		t.Fatalf("%v: %d queries\n%.500s", err, len(list), out)
	}
	return list
}

// policies are those that TestFaults does not run. Their panels are those of the others, with the name of the policy.
var policies = strings.NewReplacer(
	`policy="endpoint_metrics"`, `policy="prefix_cache"`, `policy="global_least_request"`, `policy="prefix_cache"`,
	`policy="consistent_hash"`, `policy="prefix_cache"`, `policy="cluster_metrics"`, `policy="prefix_cache"`,
)

// drawn runs the queries of all panels, and returns those that have data now, with the labels that the panel shows.
func (p *prometheus) drawn(list []panel) map[string]bool {
	p.t.Helper()
	found := map[string]bool{}
	for _, q := range list {
		for _, s := range p.query(policies.Replace(q.Expr)) {
			if !slices.ContainsFunc(q.Labels, func(label string) bool { return s.Metric[label] == "" }) {
				found[q.Expr] = true
			}
		}
	}
	return found
}

// scaled checks that the queries of autoscalers have an answer.
func (p *prometheus) scaled() {
	p.t.Helper()
	type scaler struct {
		Spec struct {
			Triggers []struct{ Metadata struct{ Query string } }
		}
	}
	var exprs []string
	for _, trigger := range parse[scaler](p.t, string(harness.ReadT(p.t, folder+"keda.yaml"))).Spec.Triggers {
		exprs = append(exprs, trigger.Metadata.Query)
	}
	type adapter struct {
		Rules struct {
			External []struct {
				Query string `yaml:"metricsQuery"`
			}
		}
	}
	text := string(harness.ReadT(p.t, folder+"prometheus-adapter.yaml"))
	for _, rule := range parse[adapter](p.t, text).Rules.External {
		exprs = append(exprs, strings.ReplaceAll(rule.Query, "<<.LabelMatchers>>", `cluster="llm"`))
	}
	if len(exprs) != 5 {
		p.t.Fatalf("there are %q", exprs)
	}
	for i, expr := range exprs {
		// The third trigger counts what found no server, which is not there as long as all do.
		if len(p.query(expr)) != 1 && i != 2 {
			p.t.Errorf("%s: %v", expr, p.query(expr))
		}
	}
}

// empty reports panels that have had no data, though what they need was there. Tiles that are green while nothing is
// wrong may be red on a busy machine.
func (p *prometheus) empty(list []panel, drawn map[string]bool) {
	p.t.Helper()
	for _, q := range list {
		green := strings.HasPrefix(q.Expr, "0 * group(")
		if !drawn[q.Expr] && q.When != "wrong" && slices.Contains(given, q.Needs) && (long || !green) {
			p.t.Errorf("the panel %q of %s shows nothing with %q: %s", q.Panel, q.Dashboard, q.Labels, q.Expr)
		}
	}
}

// TestNames checks that rules, alerts and autoscalers go by statistics that there are.
func TestNames(t *testing.T) {
	name := regexp.MustCompile(`warmgate_[a-z0-9_]+`)
	known := map[string]bool{}
	_, table, _ := strings.Cut(string(harness.ReadT(t, "docs/metrics-reference.md")), "<!-- stats -->")
	table, _, _ = strings.Cut(table, "<!-- /stats -->")
	for _, n := range name.FindAllString(table, -1) {
		known[n] = true
	}
	found := 0
	for _, file := range []string{"rules.yaml", "alerts.yaml", "keda.yaml", "hpa.yaml", "prometheus-adapter.yaml"} {
		for _, n := range name.FindAllString(string(harness.ReadT(t, folder+file)), -1) {
			for _, part := range []string{"_bucket", "_sum", "_count"} {
				if whole := strings.TrimSuffix(n, part); known[whole] {
					n = whole
				}
			}
			if found++; !known[n] {
				t.Errorf("%s: there is no %s", file, n)
			}
		}
	}
	if found < 100 {
		t.Errorf("%d names were found", found)
	}
}
