package main

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
)

// quickly are the flags of a simulation that takes no time.
var quickly = []string{"simulate", "--sessions", "20", "--requests", "300", "--system", "1k", "--think", "1s"}

func simulated(t *testing.T, more ...string) string {
	t.Helper()
	status, out, errs := play("", append(quickly[:len(quickly):len(quickly)], more...)...)
	if status != 0 || errs != "" {
		t.Fatalf("%q: status %d, %s", more, status, errs)
	}
	return out
}

func TestSimulatePrintsTheSame(t *testing.T) {
	first := simulated(t, "--endpoints", "2,3")
	if again := simulated(t, "--endpoints", "2,3"); again != first {
		t.Errorf("the same simulation twice:\n%s\n%s", first, again)
	}
	if other := simulated(t, "--endpoints", "2,3", "--seed", "2"); other == first {
		t.Error("another seed gives the same")
	}
	if rows := strings.Count(first, "\n"); rows != 1+2*len(usualPolicies) {
		t.Errorf("%d lines:\n%s", rows, first)
	}
}

func TestSimulateFormats(t *testing.T) {
	rows, err := csv.NewReader(strings.NewReader(simulated(t, "-o", "csv", "--price", "2"))).ReadAll()
	if err != nil || len(rows) != 1+len(usualPolicies) || rows[0][0] != "policy" || rows[1][0] != usualPolicies[0] ||
		rows[0][len(rows[0])-1] != "cost_per_million" {
		t.Errorf("%q, %v", rows, err)
	}
	var r struct {
		Policy   string
		Requests int
		Served   int
		Cached   float64 `json:"cached_share"`
	}
	text := simulated(t, "-o", "json", "--policy", "prefix_cache")
	if err := json.Unmarshal([]byte(text), &r); err != nil || r.Policy != "prefix_cache" || r.Requests != 300 ||
		r.Served != 300 || r.Cached < 0.5 {
		t.Errorf("%s: %+v, %v", text, r, err)
	}
}

// TestSimulateFewest compares what --within finds with all numbers of servers.
func TestSimulateFewest(t *testing.T) {
	busy := []string{"--policy", "prefix_cache", "--think", "100ms", "--sessions", "60", "-o", "csv"}
	rows := func(more ...string) [][]string {
		all, err := csv.NewReader(strings.NewReader(simulated(t, append(busy, more...)...))).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		return all[1:]
	}
	all, within, want := rows("--endpoints", "1,2,3,4,5,6,7,8"), 0.2, "none"
	for _, row := range slices.Backward(all) {
		if p90, err := strconv.ParseFloat(row[5], 64); err != nil || p90 > within {
			break
		}
		want = row[1]
	}
	found := rows("--endpoints", "8", "--within", "200ms")
	if len(found) != 1 || found[0][1] != want || want == "1" || want == "8" {
		t.Errorf("found %q, want %s of %q", found, want, all)
	}
	for _, c := range []struct {
		format, prints string
	}{{"csv", "\nprefix_cache,2,"}, {"json", `,"endpoints":2,"suffices":false}`}} {
		short := append(slices.Concat(quickly, busy), "--endpoints", "2", "--within", "1ms", "-o", c.format)
		status, out, errs := play("", short...)
		if status != statusFound || !strings.Contains(out, c.prints) || strings.Count(errs, "suffices") != 1 {
			t.Errorf("status %d, %s%s within a time that is too short", status, out, errs)
		}
	}
	out := simulated(t, append(busy, "--endpoints", "8", "--within", "200ms", "-o", "json")...)
	if !strings.Contains(out, `"suffices":true`) {
		t.Error(out)
	}
}

// TestSimulateExtremes plays with the largest numbers that flags take.
func TestSimulateExtremes(t *testing.T) {
	const most = "9223372036854775807"
	for _, row := range strings.Split(simulated(t, "--turns", most, "--queue", most, "-o", "csv"), "\n")[1:] {
		if row != "" && !strings.Contains(row, ",4,300,0,") {
			t.Errorf("%s, want 300 requests served", row)
		}
	}
}

func TestSimulateClasses(t *testing.T) {
	out := simulated(t, "--class", "interactive=3", "--class", "batch=1", "--policy", "prefix_cache")
	lines := strings.Split(out, "\n")
	if len(lines) != 5 || !strings.HasPrefix(lines[2], "prefix_cache: batch") || !strings.HasSuffix(lines[2], " -") ||
		!strings.HasPrefix(lines[3], "prefix_cache: interactive") {
		t.Errorf("%s", out)
	}
}

func TestSimulateConfigurations(t *testing.T) {
	files(t, map[string]string{"capped.yaml": `
lb_policy: prefix_cache
lb_config:
  envoy: {admin_cluster: admin}
  max_inflight: 2
`})
	out := simulated(t, "--config", "capped.yaml", "--policy", `prefix_cache={"max_inflight":2}`, "-o", "csv",
		"--endpoints", "1", "--think", "10ms")
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil || len(rows) != 3 || rows[1][0] != "prefix_cache #1" || rows[2][0] != "capped.yaml" {
		t.Fatalf("%q, %v", rows, err)
	}
	for _, row := range rows[1:] {
		if row[3] == "0" {
			t.Errorf("%q refuses none in spite of a cap", row)
		}
	}
}

// TestSimulateShippedFiles holds that configurations are found in resources of gateways.
func TestSimulateShippedFiles(t *testing.T) {
	for _, file := range []string{
		"envoy-config/warmgate.yaml", "envoy-config/higress-wasmplugin-prefix-cache.yaml", "deploy/istio/warmgate.yaml",
	} {
		out := simulated(t, "--config", harness.PathT(t, file), "-o", "csv")
		if rows := strings.Split(out, "\n"); !strings.Contains(rows[1], file+",4,300,0,") {
			t.Errorf("%s: %s", file, out)
		}
	}
}

// TestSimulateNotes holds that what no column says is said beside the table.
func TestSimulateNotes(t *testing.T) {
	for _, c := range []struct {
		flags, policy, want string
	}{
		{"--cache 1k", "random", "random, 4 endpoints: 300 requests were refused, too_long\n"},
		{"--within 1ms", "random", "random, 4 endpoints: no number of servers up to this one suffices\n"},
		{"--think 1ms", `prefix_cache={"max_inflight":2}`, " requests were refused, at_capacity\n"},
		{"--endpoints 5000", "global_least_request", "for 300 requests the plugin left the choice to the gateway\n"},
	} {
		status, out, errs := play("", append(slices.Concat(quickly, strings.Fields(c.flags)), "--policy", c.policy)...)
		want := 0
		if strings.HasPrefix(c.flags, "--within") {
			want = statusFound
		}
		if status != want || !strings.HasSuffix(errs, c.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: status %d, %s%s", c.flags, status, out, errs)
		}
	}
}

func TestSimulateTraceAndPage(t *testing.T) {
	trace := harness.PathT(t, "internal/mooncake/testdata/sample.jsonl")
	file := filepath.Join(t.TempDir(), "report.html")
	status, out, errs := play("", "simulate", "--trace", trace, "--policy", "ring_hash", "--html", file, "--price", "1",
		"-o", "json")
	page, err := os.ReadFile(file)
	if status != 0 || err != nil || !strings.Contains(out, `"requests":4`) {
		t.Fatalf("%s%s, %v", out, errs, err)
	}
	for _, want := range []string{"sample.jsonl", "<td>ring_hash, 4</td>", "Time to first token", "Cost of a million"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page has no %q", want)
		}
	}
	if plots := strings.Count(string(page), "<svg "); plots != 5 || strings.Contains(string(page), "NaN") {
		t.Errorf("%d plots:\n%s", plots, page)
	}
}

func TestSimulateRefuses(t *testing.T) {
	sample := harness.PathT(t, "internal/mooncake/testdata/sample.jsonl")
	files(t, map[string]string{
		"bad.yaml": bad, "two.yaml": good + "---\n" + good, "none.yaml": "a: b\n",
		"tab.yaml":      "lb_policy: prefix_cache\n\tlb_config: {}\n",
		"queue.yaml":    good + "lb_config: {max_inflight: 4, queue: {max_wait: 1s, classes: {fast: 2, batch: 1}}}",
		"folder/a.yaml": good + "---\n" + good, "folder/b.yaml": good, "folder/none/c.yaml": "a: b\n", "clusters.yaml": `
lb_type: cluster
lb_policy: cluster_metrics
lb_config: {mode: LeastBusy, cluster_header: x, service_list: [a, b]}
`,
	})
	for _, c := range []struct{ flags, want string }{
		{"--policy nothing", "round_robin"},
		{"--policy prefix_cache={", "--policy"},
		{"--config bad.yaml", "max_infligth"},
		{"--config two.yaml", "2 configurations"},
		{"--config tab.yaml", "tab.yaml: 2:1: "},
		{"--config queue.yaml --class fst=1", `want one of ["fast" "batch"]`},
		{`--policy prefix_cache={"redis":{"password":"sesame"},"nothing":1}`, "--policy prefix_cache: "},
		{"--config clusters.yaml", "cluster is not simulated"},
		{"--config missing.yaml", "missing.yaml"},
		{"--config none.yaml", "0 configurations"},
		{"--config folder", "folder/a.yaml: has 2"},
		{"--config folder/none", "no file"},
		{"--trace missing.jsonl", "missing.jsonl"},
		{"--system 1.5", "whole number"},
		{"--system -1", "whole number"},
		{"--turns 0", "1 turn"},
		{"--sessions 0", "1 session"},
		{"--sessions 11M", "10000000 sessions"},
		{"--think 100h --sessions 1", "ten years"},
		{"--ramp 99999h", "ten years"},
		{"--requests 2000000000", "1000M at most"},
		{"--endpoints 0", "1 endpoint"},
		{"--endpoints 4,1000000000", "100000 at most"},
		{"--batch 2000000", "1000000 at most"},
		{"--step-ms 1e300", "3600000 ms"},
		{"--queue 0", "--queue of 1"},
		{"--within -1s", "--within"},
		{"--price -1", "--price"},
		{"--price NaN", "--price"},
		{"--speed 2", "--trace"},
		{"--trace x --speed 0", "above 0"},
		{"--trace " + sample + " --speed 1e-9", "a year"},
		{"--trace x --class a=1", "[trace class]"},
		{"--policy random={}", "has no keys"},
		{"--html missing/page.html", "missing/page.html"},
		{"--cache 1", "--cache"},
		{"--prefill-ms -1", "negative"},
		{"-o xml", "xml"},
		{"--class batch", "batch=0.2"},
		{"--class batch=0", "batch=0.2"},
	} {
		status, out, errs := play("", append([]string{"simulate"}, strings.Fields(c.flags)...)...)
		if status != statusFault || out != "" || !strings.Contains(errs, c.want) || strings.Contains(errs, "sesame") {
			t.Errorf("%s: status %d, %s%s", c.flags, status, out, errs)
		}
	}
}

// TestOlderPageStays holds that a page is replaced when there is a new one, not when a simulation begins.
func TestOlderPageStays(t *testing.T) {
	files(t, map[string]string{"old.html": "old"})
	s := &simulation{html: "old.html"}
	if err := s.checkPage(); err != nil {
		t.Fatal(err)
	}
	if page, err := os.ReadFile("old.html"); err != nil || string(page) != "old" {
		t.Errorf("%q is left of an older page: %v", page, err)
	}
	simulated(t, "--html", "old.html")
	if page, err := os.ReadFile("old.html"); err != nil || !strings.HasPrefix(string(page), "<!doctype html>") {
		t.Errorf("the page is %.40q: %v", page, err)
	}
}
