package config

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/metrics"
)

// engineConfig writes a configuration of endpoint_metrics.
func engineConfig(members ...member) []byte {
	return []byte(writeConfig(append([]member{{"lb_policy", `"endpoint_metrics"`}}, members...)...))
}

// quotedDuration writes a duration of some milliseconds.
func quotedDuration(ms int) string { return fmt.Sprintf(`"%dms"`, ms) }

// Samples must stay fresh for longer than it takes to get the next one: any other pair of values is an error that
// contains both.
func TestStaleAfterExceedsTheInterval(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		interval := rapid.IntRange(200, 60_000).Draw(rt, "interval")
		stale := interval + rapid.IntRange(-1000, 1000).Draw(rt, "difference")
		stale = min(max(stale, 400), 600_000)
		text := engineConfig(
			member{"lb_config.metrics.interval", quotedDuration(interval)},
			member{keyStaleAfter, quotedDuration(stale)},
		)
		if stale > interval {
			c := mustParse(rt, text, Higress)
			if c.Engines.StaleAfter != time.Duration(stale)*time.Millisecond {
				rt.Fatalf("%s: %v", text, c.Engines.StaleAfter)
			}
			return
		}
		want := fmt.Sprintf("got %s, want more than interval, %s", brief(time.Duration(stale)*time.Millisecond),
			brief(time.Duration(interval)*time.Millisecond))
		if what := refused(rt, text, Higress, keyStaleAfter); what != want {
			rt.Fatalf("%s: %q, want %q", text, what, want)
		}
	})
}

// The longest ejection is at least as long as the first one.
func TestLongestEjectionIsLonger(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		first := rapid.IntRange(100, 3_600_000).Draw(rt, "first")
		longest := max(100, first+rapid.IntRange(-5, 5).Draw(rt, "difference"))
		text := []byte(writeConfig(
			member{"lb_policy", `"global_least_request"`},
			member{"lb_config.health.ejection_time", strconv.Itoa(first)},
			member{"lb_config.health.max_ejection_time", strconv.Itoa(longest)},
		))
		if longest >= first {
			mustParse(rt, text, Higress)
		} else if what := refused(rt, text, Higress, "lb_config.health.max_ejection_time"); !strings.HasPrefix(what,
			"got "+brief(time.Duration(longest)*time.Millisecond)+", want at least ejection_time, ") {
			rt.Fatalf("%s: %q", text, what)
		}
	})
}

// Two names of one key must agree if both are written; one of them is enough.
func TestTwoNamesOfOneKey(t *testing.T) {
	for _, c := range []struct{ ours, theirs, want, problem string }{
		{"", "", "0", ""},
		{"5", "", "5", ""},
		{"", "5", "5", ""},
		{"", `"5"`, "5", ""},
		{"5", "5", "5", ""},
		{"5", "5.9", "5", ""}, // gjson truncates
		{"0", "5", "", "got 0 and maxRequestCount 5, which is the same thing; want one of them"},
		{"5", "0", "", "got 5 and maxRequestCount 0, which is the same thing; want one of them"},
		{"5", "-3", "", "got 5 and maxRequestCount 0, which is the same thing; want one of them"},
	} {
		list := []member{{"lb_policy", `"global_least_request"`}}
		if c.ours != "" {
			list = append(list, member{"lb_config.max_inflight", c.ours})
		}
		if c.theirs != "" {
			list = append(list, member{"lb_config.maxRequestCount", c.theirs})
		}
		text := []byte(writeConfig(list...))
		if c.problem != "" {
			if what := refused(t, text, Higress, "lb_config.max_inflight"); what != c.problem {
				t.Errorf("%s: %q", text, what)
			}
		} else if got := mustParse(t, text, Higress).MaxInflight; strconv.Itoa(got) != c.want {
			t.Errorf("%s: %d", text, got)
		}
	}
	for _, ours := range engineNames() {
		for _, theirs := range engineNames() {
			text := engineConfig(
				member{keyMetricsEngine, strconv.Quote(ours)}, member{keyEngine, strconv.Quote(theirs)},
			)
			if ours != theirs {
				refused(t, text, Higress, keyMetricsEngine)
				continue
			}
			kind, _ := metrics.EngineOf(ours)
			if c := mustParse(t, text, Higress); c.Engines.Kind() != kind {
				t.Errorf("%s: expects %v", text, c.Engines.Kind())
			}
		}
	}
}

// A path is any printable text that begins with a slash and has no blanks.
func TestPathsOfMetrics(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		path := rapid.StringOfN(rapid.RuneFrom([]rune("/az09-._~?=&% \t\né\x7f")), 1, 12, -1).Draw(rt, "path")
		valid := path[0] == '/'
		for _, r := range path {
			valid = valid && r > ' ' && r <= '~'
		}
		text := engineConfig(member{keyMetricsPath, jsonText(rt, path)})
		if valid {
			if got := mustParse(rt, text, Higress).Engines.Path; got != path {
				rt.Fatalf("%s: %q", text, got)
			}
			return
		}
		want := "got " + strconv.Quote(path) + `, want a path that begins with "/", without blanks`
		if what := refused(rt, text, Higress, keyMetricsPath); what != want {
			rt.Fatalf("%s: %q", text, what)
		}
	})
}

// On stock Envoy engines are scraped through a cluster. Without one, a policy that requires metrics must get them as
// load reports, which have no metric of the operator's choice.
func TestMetricsClusterMatrix(t *testing.T) {
	for _, name := range policiesFor(policy.Endpoints) {
		required := policy.Describe(name).Needs.Metrics == policy.MetricsRequired
		for _, cluster := range []bool{false, true} {
			for _, orca := range []bool{false, true} {
				for _, target := range []bool{false, true} {
					list := []member{
						{"lb_policy", strconv.Quote(name)},
						{"lb_config.envoy.admin_cluster", `"admin"`},
						{keyORCA, strconv.FormatBool(orca)},
					}
					list = append(list, policyNeeds(name)...)
					if cluster {
						list = append(list, member{keyMetricsCluster, `"engines"`})
					}
					if target {
						list = append(list, member{"lb_config.metric_policy", `"least"`},
							member{"lb_config.target_metric", `"m"`})
					}
					text := []byte(writeConfig(list...))
					_, err := Parse(text, Envoy)
					bad := required && !cluster && (!orca || target)
					missing := "\n  " + keyMetricsCluster + ": missing"
					if bad != (err != nil) || bad && !strings.Contains(err.Error(), missing) {
						t.Errorf("%s: %v", text, err)
					}
				}
			}
		}
	}
}

// The model of a request is read only where it can matter: for a policy that uses adapters, by load, at a cost.
func TestModelIsReadWhereItMatters(t *testing.T) {
	for _, c := range []struct {
		members []member
		want    bool
	}{
		{nil, true},
		{[]member{{"lb_config.metrics.weights.lora", "0"}}, false},
		{[]member{{"lb_config.metrics.weights.lora", "0.5"}}, true},
		{[]member{{"lb_config.metric_policy", `"least"`}, {"lb_config.target_metric", `"m"`}}, false},
		{[]member{{"lb_config.metric_policy", `"default"`}}, true},
	} {
		if got := mustParse(t, engineConfig(c.members...), Higress).ReadsModel(); got != c.want {
			t.Errorf("%v: %v", c.members, got)
		}
	}
	if mustParse(t, []byte(`{"lb_policy":"global_least_request"}`), Higress).ReadsModel() {
		t.Error("global_least_request reads the model")
	}
}
