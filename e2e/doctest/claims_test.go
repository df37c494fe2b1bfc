package doctest

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
)

// routed returns who routes requests of each reason, by docs/reasons.md.
func routed(t *testing.T) map[string]string {
	t.Helper()
	by := map[string]string{}
	for _, row := range open(t, "docs/reasons.md").marked("reasons").rows[1:] {
		by[strings.Trim(row[0], "`")] = row[1]
	}
	return by
}

// TestRefusals compares the reasons under which the plugin refuses, in docs/troubleshooting.md, with those that
// docs/reasons.md has as not routed. Of these a request that has left its queue is not refused.
func TestRefusals(t *testing.T) {
	var have, want []string
	for _, row := range open(t, "docs/troubleshooting.md").marked("refusals").rows[1:] {
		have = append(have, codes(row[0])...)
	}
	by := routed(t)
	for _, r := range lb.Reasons() {
		if by[r.String()] == "not routed" && r != lb.ReasonLeftQueue {
			want = append(want, r.String())
		}
	}
	if !slices.Equal(have, want) {
		t.Errorf("docs/troubleshooting.md refuses for\n%q, docs/reasons.md for\n%q", have, want)
	}
}

// TestDecidedQueries compares what the queries of docs/metrics.md count with who routes requests by docs/reasons.md.
func TestDecidedQueries(t *testing.T) {
	by := routed(t)
	matcher := regexp.MustCompile(`reason(=~|!~)"([^"]*)"`)
	found := 0
	for _, b := range open(t, "docs/metrics.md").blocks {
		m := matcher.FindStringSubmatch(b.text)
		if b.language != "promql" || m == nil {
			continue
		}
		var wanted func(routes string, r lb.Reason) bool
		switch {
		case strings.Contains(b.text, "[1m]"): // refused
			wanted = func(routes string, r lb.Reason) bool {
				return routes == "not routed" && r != lb.ReasonLeftQueue && r != lb.ReasonNotCached // asked for
			}
		case strings.HasPrefix(b.text, "sum by (reason)"): // not decided
			wanted = func(routes string, _ lb.Reason) bool { return routes == "the gateway" }
		case strings.Contains(b.text, "/ sum"): // decided
			wanted = func(routes string, _ lb.Reason) bool { return routes != "the gateway" }
		default:
			continue
		}
		found++
		whole := regexp.MustCompile("^(?:" + m[2] + ")$")
		for _, r := range lb.Reasons() {
			counts := whole.MatchString(r.String()) == (m[1] == "=~")
			if routes := by[r.String()]; routes == "" || counts != wanted(routes, r) {
				t.Errorf("docs/metrics.md:%d: %s counts: %v, and %q routes it", b.line, r, counts, routes)
			}
		}
	}
	if found != 3 {
		t.Errorf("%d queries", found)
	}
}

// TestFirstKeys checks that configuration.md begins with the few keys that a user sets, which exist.
func TestFirstKeys(t *testing.T) {
	var known []string
	for _, k := range config.Keys() {
		known = append(known, k.Name)
	}
	for _, name := range []string{"docs/configuration.md", "docs/configuration_ZH.md"} {
		rows := open(t, name).marked("first").rows[1:]
		if len(rows) != 5 {
			t.Errorf("%s: %d rows", name, len(rows))
		}
		for _, row := range rows {
			for _, key := range codes(row[0]) {
				if !slices.Contains(known, key) {
					t.Errorf("%s: there is no key %s", name, key)
				}
			}
		}
		if text := read(t, name); strings.Index(text, "<!-- first -->") > strings.Index(text, "\n## ") {
			t.Errorf("%s does not begin with them", name)
		}
	}
}

// TestNoEffectIsMarked checks that each key which is accepted and has no effect is marked so, and no other.
func TestNoEffectIsMarked(t *testing.T) {
	english, foreign := read(t, "docs/configuration.md"), read(t, "docs/configuration_ZH.md")
	marked := 0
	for _, k := range config.Keys() {
		if k.Setting.NoEffect == "" {
			continue
		}
		marked++
		for text, mark := range map[string]string{english: "| **No effect.** ", foreign: "| **无作用。**"} {
			row := regexp.MustCompile("(?m)^\\| `" + regexp.QuoteMeta(k.Name) + "` .*$").FindString(text)
			if !strings.Contains(row, mark) {
				t.Errorf("%s is not marked: %s", k.Name, row)
			}
		}
	}
	if n := strings.Count(english, "**No effect.**"); n != marked || n == 0 {
		t.Errorf("%d keys are marked, %d have no effect", n, marked)
	}
}

// TestStrictness checks what configuration.md says of keys and values that are refused, on both gateways.
func TestStrictness(t *testing.T) {
	const policy, source = `"lb_policy": "global_least_request"`, `"envoy": {"admin_cluster": "a"}`
	for _, host := range []config.Host{config.Envoy, config.Higress} {
		own := source
		if host == config.Higress {
			own = `"shadow": false`
		}
		for what, raw := range map[string]string{
			"twice":           `{` + policy + `, ` + policy + `, "lb_config": {` + own + `}}`,
			"of another type": `{` + policy + `, "lb_config": {` + own + `, "max_inflight": "many"}}`,
			"out of bounds":   `{` + policy + `, "lb_config": {` + own + `, "max_inflight": -1}}`,
			"unknown, deeper": `{` + policy + `, "lb_config": {` + own + `, "queue": {"wanted": 1}}}`,
			"resembling":      `{` + policy + `, "lb_config": {` + own + `, "max_inflihgt": 1}}`,
		} {
			if _, err := config.Parse([]byte(raw), host); err == nil {
				t.Errorf("%s, host %v: taken: %s", what, host, raw)
			}
		}
		for _, raw := range []string{
			`{` + policy + `, "zzzzzz": 1, "lb_config": {` + own + `}}`,
			`{` + policy + `, "lb_config": {` + own + `, "zzzzzz": 1}}`,
		} {
			set, err := config.Parse([]byte(raw), host)
			if ignored := err == nil && len(set.Warnings()) > 0; ignored != (host == config.Higress) {
				t.Errorf("an unknown key, host %v: %v", host, err)
			}
		}
	}
}
