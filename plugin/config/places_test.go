package config

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/plugin/config/configtest"
)

// TestCheckSaysWhatParseSays compares both on what people write by mistake, and on the same as one of several rules.
func TestCheckSaysWhatParseSays(t *testing.T) {
	for _, found := range configtest.Mistakes(t, "") {
		m := mistake(found)
		if m.Form == "helm" {
			continue
		}
		raw, host := m.configuration(t)
		const other = `{"_match_route_":["a"],"enabled":false}`
		for _, text := range []string{raw, `{"enabled":false,"_rules_":[` + other + "," + raw + `]}`} {
			set, err := Parse([]byte(text), host)
			want := ""
			if err != nil {
				_, want, _ = strings.Cut(err.Error(), "\n  ")
				if !strings.Contains(err.Error(), "\n  ") { // what has no parts
					continue
				}
			}
			var problems, warnings []string
			again, findings := Check([]byte(text), host)
			for _, f := range findings {
				if f.Offset < 0 || f.Offset >= len(text) {
					t.Errorf("%s\n%+v is outside", text, f)
				}
				if f.Warning {
					warnings = append(warnings, f.Path+behindWarning+f.Text)
				} else {
					problems = append(problems, f.Path+behindProblem+f.Text)
				}
			}
			if (set == nil) != (again == nil) || !sameLines(problems, strings.Split(want, "\n  ")) ||
				set != nil && !sameLines(warnings, set.Warnings()) {
				t.Errorf("%s\ngot  %q %q\nwant %q", text, problems, warnings, want)
			}
		}
	}
}

func sameLines(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return strings.Join(a, "\n") == strings.Join(b, "\n")
}

// TestPlaces looks for the places of findings: each text has a mark in front of the key or value that is wrong.
func TestPlaces(t *testing.T) {
	long := strings.Repeat("x", 70)
	for _, text := range []string{
		`^`,
		`^[]`,
		`{"a": ^tru}`,
		`{"lb_policy": ^"prefix-cache"}`,
		`^{"lb_config": {}}`,
		`{"lb_policy": "prefix_cache", "lb_config": {^"maxinflight": 1}}`,
		`{"lb_policy": "prefix_cache", "lb_config": {^"a\nb": true}}`,
		`{"lb_policy": "prefix_cache", "lb_config": {^"影子": true}}`,
		`{"lb_policy": "prefix_cache", "lb_config": {^"` + long + `": true}}`,
		`{"lb_policy": "prefix_cache", "lb_config": {^"password:canary": null}}`,
		`{"lb_policy": "prefix_cache", ^"lb_policy": "prefix_cache"}`,
		`{"lb_policy": "prefix_cache", ^"lb_policy": "prefix_cache" , ^"lb_policy": 1}`,
		`{"lb_policy": "prefix_cache", "lb_config.shadow": true, "lb_config": {^"shadow": true}}`,
		`{"lb_policy": "prefix_cache", "lb_config": {"weights": {"10.0.0.1:80": ^"two"}}}`,
		`{"lb_policy": "prefix_cache", "lb_config": {"weights": {"10.0.0.1:80": 1,  ^"10.0.0.1:80": 2}}}`,
		`{"lb_policy": "prefix_cache", "lb_config": {"max_inflight": 1, "queue": {"max_wait": "1s",
			"classes": {"a: b": 1, ^"c d": 1}}}}`,
		`{"enabled": false, "_rules_": [{"_match_route_": ["a"], "enabled": false}, ^{"enabled": false}]}`,
		`{"_rules_": [{"_match_route_": ["a", ^1], "enabled": false}]}`,
		`{"_rules_": [{"_match_domain_": ["a.test", ^"b.test:1"], "enabled": false}]}`,
		`{"_rules_": [{"_match_route_": ["a"], "enabled": false}, {"_match_route_": ["b", ^"a"], "enabled": false}]}`,
		`{"lb_policy": "prefix_cache", "lb_config": {"max_inflight": 1, "queue": {"max_wait": ^30}}}`,
		`{"lb_policy": "prefix_cache", "lb_config": {"queue": {^"max_wait": "30s"}}}`,
		`{"lb_type": "cluster", "lb_policy": "cluster_metrics", ^"lb_config": {"mode": "LeastBusy"}}`,
		`{"lb_type": "cluster", "lb_policy": "cluster_metrics", "lb_config": {"mode": "LeastBusy", "service_list": ["a"],
			"endpoint": {"lb_policy": ^"no"}}}`,
	} {
		if strings.Contains(text, "a: b") {
			text = strings.Replace(text, `"a: b"`, `^"a: b"`, 1)
		}
		plain, got := strings.ReplaceAll(text, "^", ""), ""
		_, findings := Check([]byte(plain), Higress)
		at := 0
		for _, f := range findings {
			if f.Offset >= at {
				got += plain[at:f.Offset] + "^"
				at = f.Offset
			}
		}
		if got += plain[at:]; got != text {
			t.Errorf("want %s\ngot  %s\n%+v", text, got, findings)
		}
	}
}

// TestPlaceOf finds what is there, and else what is around it.
func TestPlaceOf(t *testing.T) {
	const text = `{"a": {"b.c": [1, {"d": 2}]}}`
	for _, p := range []struct {
		path, begins string
		found        bool
	}{
		{"", text, true},
		{"a", `"a"`, true},
		{"a.b.c", `"b.c"`, true},
		{"a.b.c[0]", "1", true},
		{"a.b.c[1].d", `"d"`, true},
		{"a.b.c[2]", `"b.c"`, false},
		{"a.x", `"a"`, false},
		{"x", text, false},
		{"a.b", `"a"`, false},
	} {
		place := PlaceOf([]byte(text), p.path)
		if place.Found != p.found || !strings.HasPrefix(text[place.Key:], p.begins) {
			t.Errorf("%s: %+v, want %s", p.path, place, p.begins)
		}
	}
	if place := PlaceOf([]byte("no JSON"), "a"); place.Found {
		t.Errorf("%+v", place)
	}
}

// TestCheckKeepsAll checks that more findings are returned than an error has.
func TestCheckKeepsAll(t *testing.T) {
	raw := `{"lb_policy": "prefix_cache", "lb_config": {` + strings.Repeat(`"queue.x": 1, `, 2*maxProblems) + `"y": true}}`
	if _, findings := Check([]byte(raw), Envoy); len(findings) < 2*maxProblems {
		t.Errorf("%d findings", len(findings))
	}
	raw = `{"lb_policy": "prefix_cache", "lb_config": {"envoy": {"admin_cluster": "a"}`
	for i := range maxFindings + 7 {
		raw += `, "queue.x` + strconv.Itoa(i) + `": 1`
	}
	_, findings := Check([]byte(raw+"}}"), Envoy)
	last := findings[len(findings)-1]
	if len(findings) != maxFindings+1 || last.Offset != findings[maxFindings-1].Offset ||
		last.Text != "more problems than are shown: 7" {
		t.Errorf("%d findings, the last %+v", len(findings), last)
	}
}
