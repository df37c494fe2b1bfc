package observability

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
)

var update = flag.Bool("update", false, "write the generated files of deploy/observability")

const folder = "deploy/observability/"

// head is what rules.yaml begins with.
const head = `# Recording rules on Warmgate's statistics, for Prometheus 2.42 and later; prometheusrule.yaml has the same for its
# operator. Made by: go test ./e2e/observability -run Generated -update
groups:
`

// rule is one that records.
type rule struct{ record, labels, expr string }

// own are the rules that alerts need, and that are handy in dashboards.
var own = []rule{
	{record: "warmgate:ttft_target_seconds", expr: "vector(10)"},
	{
		record: "warmgate:requests:rate5m",
		expr:   "sum by (cluster, model, outcome) (rate(warmgate_requests_total[5m]))",
	},
	{
		record: "warmgate:tokens:rate5m",
		expr:   "sum by (cluster, model, kind) (rate(warmgate_tokens_total[5m]))",
	},
	{
		record: "warmgate:failed:ratio_rate5m",
		expr: `(sum by (cluster) (rate(warmgate_requests_total{outcome=~"server_failed|timeout"}[5m]))` +
			" or 0 * sum by (cluster) (rate(warmgate_requests_total[5m])))" +
			" / (sum by (cluster) (rate(warmgate_requests_total[5m])) > 0)",
	},
	{
		record: "warmgate:refused:ratio_rate5m",
		expr: `(sum(rate(warmgate_decisions_total{reason=~"` + refused + `"}[5m]))` +
			" or 0 * sum(rate(warmgate_decisions_total[5m]))) / (sum(rate(warmgate_decisions_total[5m])) > 0)",
	},
	{
		record: "warmgate:native:ratio_rate5m",
		expr: `sum by (reason) (rate(warmgate_decisions_total{reason=~"` + native + `"}[5m]))` +
			" / on () group_left () (sum(rate(warmgate_decisions_total[5m])) > 0)",
	},
	{
		record: "warmgate:ttft_seconds:p99_5m",
		expr:   "histogram_quantile(0.99, sum by (cluster, le) (rate(warmgate_ttft_ms_bucket[5m]))) / 1000",
	},
	{
		record: "warmgate:endpoint_prefill_ms:rate5m",
		expr: "sum by (cluster, endpoint) (rate(warmgate_endpoint_prefill_ms_total[5m]))" +
			" / (sum by (cluster, endpoint) (rate(warmgate_endpoint_streams_total[5m])) > 0)",
	},
	{
		record: "warmgate:endpoint_token_ms:rate5m",
		expr: "sum by (cluster, endpoint) (rate(warmgate_endpoint_decode_ms_total[5m]))" +
			" / (sum by (cluster, endpoint) (rate(warmgate_endpoint_decoded_tokens_total[5m])) > 0)",
	},
	{record: "warmgate:endpoint_prefill:times_peers", expr: timesPeers("warmgate:endpoint_prefill_ms:rate5m")},
	{record: "warmgate:endpoint_token:times_peers", expr: timesPeers("warmgate:endpoint_token_ms:rate5m")},
	{ // than an hour or a day ago, whichever was less, of servers that write more than a token a second
		record: timesBefore,
		expr: "(warmgate:endpoint_token_ms:rate5m and on (cluster, endpoint)" +
			" sum by (cluster, endpoint) (rate(warmgate_endpoint_decoded_tokens_total[5m])) > 1)" +
			" / min by (cluster, endpoint) (avg_over_time(warmgate:endpoint_token_ms:rate5m[10m] offset 1h) or" +
			" label_replace(avg_over_time(warmgate:endpoint_token_ms:rate5m[10m] offset 1d)," +
			` "ago", "day", "cluster", ".*"))`,
	},
}

const timesBefore = "warmgate:endpoint_token:times_before"

// timesPeers divides what there is of an endpoint by the mean of the other endpoints of its cluster.
func timesPeers(x string) string {
	return fmt.Sprintf("%[1]s / ((-1 * (%[1]s - on (cluster) group_left () sum by (cluster) (%[1]s)))"+
		" / on (cluster) group_left () (count by (cluster) (%[1]s) - 1))", x)
}

const (
	// refused are the reasons with which requests are refused.
	refused = "at_capacity|max_queue_.*|deadline_.*|queue_timeout|retry_budget_.*|.*over_budget|no_hash_header|" +
		"own_cluster|none_in_subset|no_model"
	// native are those of requests that are left to the gateway, and are not meant to be.
	native = "config_invalid|no_cluster.*|no_endpoints|no_healthy_.*|panic.*|no_metrics|store_error"
)

// Bounds of the buckets of histograms. Envoy's own are those of gateways whose bootstrap is not ours, but for the ends
// that no answer comes near to; the shipped bootstraps have them as well, and more in between.
var (
	forMS = []float64{5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000, 300000, 600000}
	forUS = []float64{1000, 2500, 5000, 10000, 30000, 60000, 300000, 600000, 1800000, 3600000}
	// Of tokens there are both, since they have nothing in common: those of the conventions, and Envoy's.
	forTokens = []float64{
		1, 4, 5, 10, 16, 25, 50, 64, 100, 128, 250, 256, 500, 512, 1000, 1024, 2048, 2500, 4096, 5000, 8192, 10000,
		16384, 30000, 32768, 60000, 65536, 131072, 262144, 300000, 600000, 1048576,
	}
)

// genAI says how a histogram of the gateway becomes one of OpenTelemetry's conventions.
type genAI struct {
	name, of string
	scale    float64
	bounds   []float64
	errors   bool   // it has a label error_type
	match    string // of the gateway's labels
	labels   string // more labels
}

var conventions = []genAI{
	{
		name: "gen_ai_server_request_duration_seconds", of: "warmgate_request_duration_ms", scale: 1000, bounds: forMS,
		errors: true,
	},
	{name: "gen_ai_server_time_to_first_token_seconds", of: "warmgate_ttft_ms", scale: 1000, bounds: forMS},
	{
		name: "gen_ai_server_time_per_output_token_seconds", of: "warmgate_time_per_output_token_us", scale: 1e6,
		bounds: forUS,
	},
	{
		name: "gen_ai_client_token_usage", of: "warmgate_request_tokens", scale: 1, bounds: forTokens,
		match: `kind="prompt"`, labels: "gen_ai_token_type: input",
	},
	{
		name: "gen_ai_client_token_usage", of: "warmgate_request_tokens", scale: 1, bounds: forTokens,
		match: `kind="completion"`, labels: "gen_ai_token_type: output",
	},
}

// rules are those of one histogram: one for each bucket, since no expression can change a label by arithmetic.
func (g *genAI) rules() []rule {
	number := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	// What identifies a gateway stays, so that each series is one counter, which may begin anew.
	expr := func(part, match string) string {
		labels := strings.Join(slices.DeleteFunc([]string{g.match, match}, func(s string) bool { return s == "" }), ",")
		if labels != "" {
			labels = "{" + labels + "}"
		}
		e := fmt.Sprintf(`label_replace(label_replace(%s_%s%s, "gen_ai_request_model", "$1", "model", "(.+)"), `+
			`"server_address", "$1", "cluster", "(.+)")`, g.of, part, labels)
		if g.errors {
			e = fmt.Sprintf(`label_replace(%s, "error_type", "$1", "outcome", "(client_left|client_error|server_failed|`+
				`refused|timeout)")`, e)
		}
		return "sum without (cluster, policy, model, class, outcome, kind, le) (" + e + ")"
	}
	var list []rule
	for _, bound := range g.bounds {
		label := fmt.Sprintf(`le: "%s"`, number(bound/g.scale))
		if g.labels != "" {
			label += ", " + g.labels
		}
		// Since its third version, Prometheus writes 5 as 5.0.
		match := fmt.Sprintf(`le=~"%s(\\.0)?"`, number(bound))
		list = append(list, rule{record: g.name + "_bucket", labels: label, expr: expr("bucket", match)})
	}
	last := `le: "+Inf"`
	if g.labels != "" {
		last += ", " + g.labels
	}
	sum := expr("sum", "")
	if g.scale != 1 {
		sum += " / " + number(g.scale)
	}
	return append(list, rule{g.name + "_bucket", last, expr("bucket", `le="+Inf"`)},
		rule{g.name + "_sum", g.labels, sum}, rule{g.name + "_count", g.labels, expr("count", "")})
}

// quoted is a text as YAML has it in single quotes.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// wrapped breaks a line of YAML at spaces, which is what it reads there. A word that is longer stays whole.
func wrapped(line string) string {
	const width, indent = 116, "      " // two less than what the resource has
	var b strings.Builder
	n := 0
	for i, word := range strings.Fields(line) {
		switch {
		case i == 0:
			word = "    " + word
		case n+1+len(word) > width:
			word, n = "\n"+indent+word, 0
		default:
			word = " " + word
		}
		b.WriteString(word)
		n += len(strings.TrimPrefix(word, "\n"))
	}
	return b.String() + "\n"
}

// group writes a group of rules.
func group(name, comment string, list []rule) string {
	var b strings.Builder
	for _, line := range strings.Split(strings.TrimSpace(comment), "\n") {
		fmt.Fprintf(&b, "# %s\n", line)
	}
	fmt.Fprintf(&b, "- name: %s\n  rules:\n", name)
	for _, r := range list {
		fmt.Fprintf(&b, "  - record: %s\n%s", r.record, wrapped("    expr: "+quoted(r.expr)))
		if r.labels != "" {
			fmt.Fprintf(&b, "    labels: {%s}\n", r.labels)
		}
	}
	return b.String()
}

// recorded is the text of rules.yaml.
func recorded() string {
	text := head + group("warmgate-recorded", `
What alerts go by. warmgate:ttft_target_seconds is yours to set: how long one stream in a hundred may wait for its
first token before WarmgateFirstTokenSlow says so.`, own)
	var list []rule
	for _, g := range conventions {
		list = append(list, g.rules()...)
	}
	return text + group("warmgate-genai", `
The names and units of OpenTelemetry's conventions for generative AI. Each bucket has a rule of its own, since it is
in seconds here. Buckets are those that all gateways have, but of tokens, where each gateway has some: those of the
shipped bootstraps of Envoy, or those of Higress and Istio.`, list)
}

// groups are those of a file of rules.
type groups struct {
	Groups []any `yaml:"groups"`
}

func parse[T any](t *testing.T, text string) (v T) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// resource is the text of prometheusrule.yaml.
func resource(t *testing.T, files ...string) string {
	t.Helper()
	text := `# The rules and alerts of this folder for the operator of Prometheus. Made by: go test ./e2e/observability -run
# Generated -update
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: warmgate
  # What your Prometheus selects rules by (ruleSelector); that of kube-prometheus-stack is the name of its release.
  labels: {release: kube-prometheus-stack}
spec:
  groups:
`
	for _, file := range files {
		_, list, ok := strings.Cut(file, "\ngroups:\n")
		if !ok {
			t.Fatal("a file without groups")
		}
		for line := range strings.Lines(list) {
			if line = strings.TrimSuffix(line, "\n"); line != "" {
				text += "  " + line
			}
			text += "\n"
		}
	}
	return text
}

// TestGenerated compares the files that are made of others with what they would be, or writes them anew.
func TestGenerated(t *testing.T) {
	rules := recorded()
	alerts := string(harness.ReadT(t, folder+"alerts.yaml"))
	for name, want := range map[string]string{"rules.yaml": rules, "prometheusrule.yaml": resource(t, rules, alerts)} {
		path := harness.PathT(t, folder+name)
		if have, err := os.ReadFile(path); err == nil && string(have) == want {
			continue
		}
		if !*update {
			t.Errorf("%s is old; run: go test ./e2e/observability -run Generated -update", name)
		} else if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOperatorHasTheSame compares the groups in the resource for the operator with those of the files, as Prometheus
// reads them.
func TestOperatorHasTheSame(t *testing.T) {
	var want []any
	for _, name := range []string{"rules.yaml", "alerts.yaml"} {
		want = append(want, parse[groups](t, string(harness.ReadT(t, folder+name))).Groups...)
	}
	got := parse[struct{ Spec groups }](t, string(harness.ReadT(t, folder+"prometheusrule.yaml"))).Spec.Groups
	if len(got) < 8 || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("prometheusrule.yaml has other groups:\n%v\nwant\n%v", got, want)
	}
}

// whole is an expression that matches all of a name, as Envoy's do.
func whole(expr string) *regexp.Regexp { return regexp.MustCompile("^(?:" + expr + ")$") }

// TestBuckets checks that the buckets of the rules are those of the shipped bootstrap, and Envoy's.
func TestBuckets(t *testing.T) {
	// Envoy's, by its documentation of histogram_bucket_settings.
	envoy := []float64{
		0.5, 1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000, 300000, 600000, 1800000, 3600000,
	}
	type bootstrap struct {
		Stats struct {
			Settings []struct {
				Match struct {
					Suffix string
					Regex  struct{ Regex string } `yaml:"safe_regex"`
				}
				Buckets []float64
			} `yaml:"histogram_bucket_settings"`
		} `yaml:"stats_config"`
	}
	shipped := parse[bootstrap](t, string(harness.ReadT(t, "envoy-config/envoy.yaml"))).Stats.Settings
	for _, g := range conventions {
		var here []float64
		for _, s := range shipped {
			// The first that matches, as in Envoy.
			suffix, all := s.Match.Suffix, s.Match.Regex.Regex
			if suffix != "" && strings.HasSuffix(g.of, suffix) || all != "" && whole(all).MatchString(g.of) {
				here = s.Buckets
				break
			}
		}
		for _, bound := range g.bounds {
			in, own := slices.Contains(here, bound), slices.Contains(envoy, bound)
			if g.scale != 1 && (!in || !own) || g.scale == 1 && !in && !own {
				t.Errorf("%s: a gateway has no bucket to %v: %v", g.of, bound, here)
			}
		}
	}
}
