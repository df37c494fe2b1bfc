package observability

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/fleet"
	"github.com/warmgate/warmgate/e2e/harness"
)

// alert is one of alerts.yaml.
type alert struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

func alerts(t *testing.T) (list []alert) {
	t.Helper()
	type file struct{ Groups []struct{ Rules []alert } }
	for _, g := range parse[file](t, string(harness.ReadT(t, folder+"alerts.yaml"))).Groups {
		list = append(list, g.Rules...)
	}
	return list
}

// TestEveryAlert checks that each alert says what it has to, and leads to where the runbook is.
func TestEveryAlert(t *testing.T) {
	const docs = "https://github.com/warmgate/warmgate/blob/main/"
	heading := regexp.MustCompile(`(?m)^#+ (.+)$`)
	anchors := map[string][]string{}
	for _, a := range alerts(t) {
		if n := a.Annotations; a.For == "" || n["summary"] == "" || n["description"] == "" || len(n) != 3 {
			t.Errorf("%s: for, summary, description or runbook_url is missing: %+v", a.Alert, a)
		}
		severities := []string{"critical", "warning", "info"}
		if s := a.Labels["severity"]; len(a.Labels) != 1 || !slices.Contains(severities, s) {
			t.Errorf("%s: labels are %v", a.Alert, a.Labels)
		}
		page, anchor, _ := strings.Cut(strings.TrimPrefix(a.Annotations["runbook_url"], docs), "#")
		if anchors[page] == nil {
			for _, h := range heading.FindAllStringSubmatch(string(harness.ReadT(t, page)), -1) {
				name := strings.ToLower(strings.ReplaceAll(strings.TrimSpace(h[1]), " ", "-"))
				anchors[page] = append(anchors[page], regexp.MustCompile("[^a-z0-9_-]").ReplaceAllString(name, ""))
			}
		}
		if !slices.Contains(anchors[page], anchor) {
			t.Errorf("%s: %s has no %s", a.Alert, page, anchor)
		}
	}
}

// series are values of statistics over time, a minute apart, in promtool's notation.
type series map[string]string

const (
	gateway = `instance="a",job="gateway"`
	span    = 120 // minutes that a test takes
)

// calm is a gateway at work that has nothing to complain of now, for as long as a test takes: 10 requests a second. In
// USD the smaller of two tenants has almost as much as the other.
var calm = func() series {
	s := series{
		`up{` + gateway + `}`:                                                                                           "1x120",
		`warmgate_config_valid{` + gateway + `}`:                                                                        "1x120",
		`warmgate_config_rejected_total{` + gateway + `}`:                                                               "3x120",
		`warmgate_config_refused_rules{` + gateway + `}`:                                                                "0x120",
		`warmgate_owners{` + gateway + `}`:                                                                              "2x120",
		`warmgate_store_corrected_total{` + gateway + `}`:                                                               "2x120",
		`warmgate_redis_up{` + gateway + `}`:                                                                            "1x120",
		`warmgate_decisions_total{policy="prefix_cache",reason="chosen",` + gateway + `}`:                               "0+600x120",
		`warmgate_decisions_total{policy="prefix_cache",reason="no_endpoints",` + gateway + `}`:                         "4x120",
		`warmgate_metrics_scrapes_total{result="ok",` + gateway + `}`:                                                   "0+120x120",
		`warmgate_metrics_scrapes_total{result="timeout",` + gateway + `}`:                                              "1x120",
		`warmgate_metrics_fresh_endpoints{cluster="llm",` + gateway + `}`:                                               "2x120",
		`warmgate_metrics_lacking_endpoints{cluster="llm",` + gateway + `}`:                                             "0x120",
		`warmgate_ejected_endpoints{cluster="llm",` + gateway + `}`:                                                     "0x120",
		`warmgate_backpressure_percent{cluster="llm",` + gateway + `}`:                                                  "0x120",
		`warmgate_expected_cached_tokens_total{` + gateway + `}`:                                                        "0+60000x120",
		`warmgate_match_error_percent{api="chat",model="m",` + gateway + `}`:                                            "3x120",
		`warmgate_region_available{region="eu",` + gateway + `}`:                                                        "1x120",
		`warmgate_region_adopted{region="eu",` + gateway + `}`:                                                          "0x120",
		`warmgate_ttft_ms_count{cluster="llm",model="m",` + gateway + `}`:                                               "0+600x120",
		`warmgate_ttft_ms_bucket{cluster="llm",model="m",le="1000",` + gateway + `}`:                                    "0+600x120",
		`warmgate_ttft_ms_bucket{cluster="llm",model="m",le="30000",` + gateway + `}`:                                   "0+600x120",
		`warmgate_ttft_ms_bucket{cluster="llm",model="m",le="+Inf",` + gateway + `}`:                                    "0+600x120",
		`warmgate_cost_nano_total{model="m",tenant="a",currency="EUR",` + gateway + `}`:                                 "0+900x120",
		`warmgate_cost_nano_total{model="m",tenant="b",currency="EUR",` + gateway + `}`:                                 "0+800x120",
		`warmgate_cost_nano_total{model="m",tenant="c",currency="EUR",` + gateway + `}`:                                 "0+800x120",
		`warmgate_cost_nano_total{model="m",tenant="d",currency="EUR",` + gateway + `}`:                                 "0+800x120",
		`warmgate_cost_nano_total{model="m",tenant="a",currency="USD",` + gateway + `}`:                                 "0+600x120",
		`warmgate_cost_nano_total{model="m",tenant="b",currency="USD",` + gateway + `}`:                                 "0+400x120",
		`warmgate_recovered_panics_total{` + gateway + `}`:                                                              "2x120",
		`warmgate_prefix_losses_total{cluster="llm",` + gateway + `}`:                                                   "2x120",
		`warmgate_region_hops_forged_total{` + gateway + `}`:                                                            "2x120",
		`warmgate_cluster_requests_total{cluster="llm",result="served",` + gateway + `}`:                                "0+600x120",
		`warmgate_requests_total{cluster="llm",policy="prefix_cache",model="m",outcome="client_left",` + gateway + `}`:  "0+9x120",
		`warmgate_requests_total{cluster="llm",policy="prefix_cache",model="m",outcome="client_error",` + gateway + `}`: "0+3x120",
	}
	for _, cluster := range []string{"llm", "another"} {
		s[fmt.Sprintf(`envoy_cluster_membership_total{envoy_cluster_name="%s",%s}`, cluster, gateway)] = "2x120"
	}
	s[`envoy_cluster_membership_healthy{envoy_cluster_name="llm",`+gateway+`}`] = "2x120"
	s[`envoy_cluster_membership_healthy{envoy_cluster_name="another",`+gateway+`}`] = "1x120"
	s[requests("m", "ok")] = "0+588x120"
	for kind, step := range map[string]int{"input": 60000, "cached": 50000, "output": 60000} {
		s[fmt.Sprintf(`warmgate_tokens_total{cluster="llm",policy="prefix_cache",model="m",kind="%s",usage="reported",%s}`, kind,
			gateway)] = fmt.Sprintf("0+%dx120", step)
	}
	for _, endpoint := range []string{"1", "2"} {
		s[ofServer("warmgate_endpoint_requests_total", endpoint, `,outcome="ok"`)] = "0+300x120"
		s[ofServer("warmgate_endpoint_streams_total", endpoint, "")] = "0+300x120"
		s[ofServer("warmgate_endpoint_prefill_ms_total", endpoint, "")] = "0+90000x120"
		s[ofServer("warmgate_endpoint_decode_ms_total", endpoint, "")] = "0+300000x120"
		s[ofServer("warmgate_endpoint_decoded_tokens_total", endpoint, "")] = "0+30000x120"
		s[ofServer("warmgate_inflight_requests", endpoint, "")] = "5x120"
	}
	// Unequal servers, of which each takes three times as long per token under the load of the hour of the fault.
	for i, tokens := range []int{3000, 1800, 1500} {
		labels := fmt.Sprintf(`{cluster="unequal",endpoint="%d",%s}`, i, gateway)
		s["warmgate_endpoint_decoded_tokens_total"+labels] = fmt.Sprintf("0+%dx120", tokens)
		s["warmgate_endpoint_decode_ms_total"+labels] = "0+30000x19 600000+90000x60 6030000+30000x40"
	}
	return s
}()

func requests(model, outcome string) string {
	return fmt.Sprintf(`warmgate_requests_total{cluster="llm",policy="prefix_cache",model="%s",outcome="%s",%s}`, model,
		outcome, gateway)
}

func ofServer(name, endpoint, more string) string {
	return fmt.Sprintf(`%s{cluster="llm",endpoint="%s"%s,%s}`, name, endpoint, more, gateway)
}

// fault is what goes wrong with a gateway from the 20th minute on, and is mended in the 80th.
type fault struct {
	alert  string
	wrong  series
	labels string   // of the alert, beside its name and severity
	also   []string // alerts that the same may raise
	with   []string // labels of more alerts of that name
	past   bool     // it is measured by an hour ago
}

// series are those of a gateway that has the fault.
func (f *fault) series() series {
	all := maps.Clone(calm)
	maps.Copy(all, f.wrong)
	maps.DeleteFunc(all, func(_, values string) bool { return values == "" })
	return all
}

// flow is a counter that rises by n a minute in that hour.
func flow(n int) string { return fmt.Sprintf("0x19 %d+%dx60 %dx40", n, n, n*61) }

// during is a gauge that has a value in that hour, and another one before and after.
func during(value, before int) string { return fmt.Sprintf("%dx19 %dx59 %dx40", before, value, before) }

// alerting has promtool evaluate alerts, and the rules that they need. It is without those of the conventions, which
// would take most of the time.
func alerting(t *testing.T, every string) string {
	t.Helper()
	recording := filepath.Join(t.TempDir(), "recording.yaml")
	if err := os.WriteFile(recording, []byte("groups:\n"+group("own", "", own)), 0o644); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("rule_files: [%q, %q]\nevaluation_interval: %s\n", recording,
		harness.PathT(t, folder+"alerts.yaml"), every)
}

// run has promtool run tests without rules.
func run(t *testing.T, tests string) { t.Helper(); runWith(t, "", tests) }

// runWith has promtool run tests.
func runWith(t *testing.T, rules, tests string) {
	t.Helper()
	promtool := fleet.ProgramT(t, "promtool")
	file := filepath.Join(t.TempDir(), "test.yaml")
	if err := os.WriteFile(file, []byte(rules+"tests:\n"+tests), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), promtool, "test", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestAlerts has each alert raised by what it is for, not before its time, and by nothing else than that; and sees
// that it is over when that is mended.
func TestAlerts(t *testing.T) {
	var b strings.Builder
	wanted := map[string]alert{}
	for _, a := range alerts(t) {
		wanted[a.Alert] = a
	}
	tested := map[string]bool{}
	for i := range faults {
		f := &faults[i]
		a, ok := wanted[f.alert]
		if !ok {
			t.Fatalf("there is no %s", f.alert)
		}
		tested[f.alert] = true
		f.write(t, &b, a)
	}
	for name := range wanted {
		if !tested[name] {
			t.Errorf("nothing raises %s", name)
		}
	}
	runWith(t, alerting(t, "2m"), b.String())
}

// write adds promtool's test of a fault.
func (f *fault) write(t *testing.T, b *strings.Builder, a alert) {
	t.Helper()
	feed(t, b, f.alert, "1m", f.series())
	mine := fmt.Sprintf(`ALERTS{alertstate="firing",alertname="%s"}`, f.alert)
	others := fmt.Sprintf(`ALERTS{alertstate="firing",alertname!~"%s"}`, strings.Join(append(f.also, f.alert), "|"))
	samples := "\n    exp_samples:"
	for _, labels := range append(f.with, f.labels) {
		samples += fmt.Sprintf("\n    - {labels: 'ALERTS{%s}', value: 1}", strings.TrimSuffix(fmt.Sprintf(
			`alertname="%s",alertstate="firing",severity="%s",%s`, f.alert, a.Labels["severity"], labels), ","))
	}
	for _, c := range []struct {
		expr   string
		minute int
		want   string
	}{
		{mine, 19, ""},
		{mine, 78, samples},
		{mine, span - 1, ""},
		{others, 18, ""},
		{others, 50, ""},
		{others, 78, ""},
		{others, span - 1, ""},
	} {
		fmt.Fprintf(b, "  - expr: %s\n    eval_time: %dm%s\n", quoted(c.expr), c.minute, c.want)
	}
	// It takes at least as long as its for.
	if a.For != "0m" {
		fmt.Fprintf(b, "  - expr: %s\n    eval_time: 20m\n", quoted(mine))
	}
}

// feed begins a test of promtool with series, a sample at each interval.
func feed(t *testing.T, b *strings.Builder, name, every string, all series) {
	t.Helper()
	type input struct{ Series, Values string }
	var inputs []input
	for _, name := range slices.Sorted(maps.Keys(all)) {
		inputs = append(inputs, input{name, all[name]})
	}
	text, err := yaml.Marshal(inputs)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(b, "- name: %s\n  interval: %s\n  input_series:\n%s  promql_expr_test:\n", name, every,
		regexp.MustCompile(`(?m)^`).ReplaceAllString(strings.TrimSpace(string(text)), "  ")+"\n")
}

// TestRules has promtool check the files, and both forms of the bounds of buckets, which Prometheus's releases differ
// in.
func TestRules(t *testing.T) {
	promtool := fleet.ProgramT(t, "promtool")
	out, err := exec.CommandContext(t.Context(), promtool, "check", "rules", "--lint-fatal",
		harness.PathT(t, folder+"rules.yaml"), harness.PathT(t, folder+"alerts.yaml")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var b strings.Builder
	for _, le := range []string{"250", "250.0"} {
		fmt.Fprintf(&b, `- interval: 1m
  input_series:
  - {series: 'warmgate_request_duration_ms_bucket{cluster="c",policy="p",model="m",outcome="ok",instance="a",le="%[1]s"}', values: 1+1x5}
  - {series: 'warmgate_request_duration_ms_bucket{cluster="c",policy="q",model="m",outcome="ok",instance="a",le="%[1]s"}', values: 2+1x5}
  - {series: 'warmgate_request_duration_ms_bucket{cluster="c",policy="p",outcome="timeout",instance="a",le="%[1]s"}', values: 5+1x5}
  - {series: 'warmgate_request_duration_ms_sum{cluster="c",policy="p",model="m",outcome="ok",instance="a"}', values: 1500+1x5}
  - {series: 'warmgate_time_per_output_token_us_sum{cluster="c",policy="p",model="m",instance="a"}', values: 30000+0x5}
  - {series: 'warmgate_request_tokens_bucket{cluster="c",policy="p",model="m",kind="prompt",instance="a",le="%[1]s"}', values: 7+0x5}
  - {series: 'warmgate_request_tokens_sum{cluster="c",policy="p",model="m",kind="completion",instance="a"}', values: 9+0x5}
  promql_expr_test:
  - expr: '{__name__=~"gen_ai.*"}'
    eval_time: 0m
    exp_samples:
    - {labels: 'gen_ai_server_request_duration_seconds_bucket{gen_ai_request_model="m",server_address="c",instance="a",le="0.25"}', value: 3}
    - {labels: 'gen_ai_server_request_duration_seconds_bucket{server_address="c",instance="a",error_type="timeout",le="0.25"}', value: 5}
    - {labels: 'gen_ai_server_request_duration_seconds_sum{gen_ai_request_model="m",server_address="c",instance="a"}', value: 1.5}
    - {labels: 'gen_ai_server_time_per_output_token_seconds_sum{gen_ai_request_model="m",server_address="c",instance="a"}', value: 0.03}
    - {labels: 'gen_ai_client_token_usage_bucket{gen_ai_request_model="m",gen_ai_token_type="input",server_address="c",instance="a",le="250"}', value: 7}
    - {labels: 'gen_ai_client_token_usage_sum{gen_ai_request_model="m",gen_ai_token_type="output",server_address="c",instance="a"}', value: 9}
`, le)
	}
	rules := fmt.Sprintf("rule_files: [%q]\nevaluation_interval: 1m\n", harness.PathT(t, folder+"rules.yaml"))
	runWith(t, rules, b.String())
}
