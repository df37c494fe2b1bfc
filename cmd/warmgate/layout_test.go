package main

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
)

// column returns the cells of a column of a simulation's rows, by what is in the first column.
func column(t *testing.T, head string, flags ...string) (names []string, cells map[string]string) {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(simulated(t, append(flags, "-o", "csv")...))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.Index(rows[0], head)
	if at < 0 {
		t.Fatalf("no column %s in %q", head, rows[0])
	}
	cells = map[string]string{}
	for _, row := range rows[1:] {
		names = append(names, row[0])
		cells[row[0]] = row[at]
	}
	return names, cells
}

// TestSimulateRegions holds that there is a row for each region, and that what is forwarded is shown.
func TestSimulateRegions(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.html")
	flags := []string{
		"--region", "eu=1,share=3", "--region", "us=1", "--think", "10ms", "--batch", "4", "--html", page,
		"--rtt", "60ms", "--rtt", "us:eu=80ms",
	}
	names, forwarded := column(t, "forwarded", flags...)
	if want := []string{
		"prefix_cache", "prefix_cache: eu", "prefix_cache: us", "prefix_cache forwarding",
		"prefix_cache forwarding: eu", "prefix_cache forwarding: us",
	}; !slices.Equal(names, want) || forwarded[want[0]] != "0" || forwarded[want[3]] == "0" ||
		forwarded[want[4]] == "0" {
		t.Errorf("%q: %v", names, forwarded)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Requests under way by region: prefix_cache forwarding, 2",
		"Forwarded to other regions: prefix_cache forwarding, 2",
		"Regions: eu=1,share=3,zone=0 us=1,share=1,zone=0; round trips 60ms, us:eu=80ms",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the page has no %q", want)
		}
	}
}

// TestSimulateRegionsOfFile holds that a shipped configuration of a region is played in all of its regions.
func TestSimulateRegionsOfFile(t *testing.T) {
	raw, err := os.ReadFile(harness.PathT(t, "envoy-config/warmgate-regions.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	files(t, map[string]string{"regions.yaml": strings.Replace(string(raw),
		"replace this by 32 random bytes, the same in all regions", "0123456789abcdef0123456789abcdef", 1)})
	names, served := column(t, "served", "--config", "regions.yaml", "--region", "us=1", "--region", "eu=1")
	if len(names) != 3 || served["regions.yaml"] != "300" {
		t.Errorf("%v", served)
	}
	status, _, errs := play("", append(quickly, "--config", "regions.yaml")...)
	if status == 0 || !strings.Contains(errs, `regions ["us" "eu"]: want engines in each of them; name them by --region`) {
		t.Errorf("status %d, %s without the regions", status, errs)
	}
}

// TestSimulateDay holds that a day ends by itself, and that fewer servers suffice for it within a longer time.
func TestSimulateDay(t *testing.T) {
	files(t, nil)
	fewest := func(within string) int {
		t.Helper()
		status, out, errs := play("", "simulate", "--sessions", "200", "--think", "1s", "--day", "30s",
			"--region", "eu=6,zone=1", "--region", "us=6,zone=-8", "--within", within, "-o", "csv")
		rows := strings.Split(out, "\n")
		if status != 0 || len(rows) != 8 || !strings.HasPrefix(rows[4], "prefix_cache forwarding,") {
			t.Fatalf("status %d, %s%s", status, out, errs)
		}
		n, err := strconv.Atoi(strings.Split(rows[4], ",")[1])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if short, long := fewest("80ms"), fewest("5s"); short <= long || long >= 12 {
		t.Errorf("%d servers within a short time, %d within a long one", short, long)
	}
}

// TestSimulateServers holds that servers may be of several kinds.
func TestSimulateServers(t *testing.T) {
	_, alike := column(t, "ttft_p90_s", "--policy", "round_robin", "--endpoints", "3")
	names, unlike := column(t, "ttft_p90_s", "--policy", "round_robin", "--servers", "2", "--servers",
		"1:speed=0.1,cache=64k,batch=32,queue=8")
	if len(names) != 1 || unlike["round_robin"] <= alike["round_robin"] {
		t.Errorf("%v with a slow server, %v without", unlike, alike)
	}
}

// TestSimulateSplit holds that pools are compared with as many servers that do both.
func TestSimulateSplit(t *testing.T) {
	names, endpoints := column(t, "endpoints", "--policy", "prefix_cache", "--prefill", "1", "--decode", "2",
		"--transfer-ms", "0.1")
	if !slices.Equal(names, []string{"prefix_cache", "prefix_cache 1+2"}) || endpoints[names[0]] != "3" ||
		endpoints[names[1]] != "3" {
		t.Errorf("%q: %v", names, endpoints)
	}
}

// TestSimulateGateways holds that gateways that share what they know find more cached prompts than those that do not,
// and that a configuration with Redis is one of the former.
func TestSimulateGateways(t *testing.T) {
	files(t, map[string]string{"redis.yaml": `
lb_policy: prefix_cache
lb_config: {store: redis, serviceFQDN: redis.static}
`})
	names, cached := column(t, "cached_share", "--policy", "round_robin", "--policy", "prefix_cache", "--config",
		"redis.yaml", "--gateways", "4")
	alone, shared := "prefix_cache", "prefix_cache shared"
	if !slices.Equal(names, []string{"round_robin", alone, shared, "redis.yaml"}) || cached[alone] >= cached[shared] ||
		cached["redis.yaml"] != cached[shared] {
		t.Errorf("%q: %v", names, cached)
	}
}

// TestSimulateVary holds that a key is varied in what has keys, in the part of a file that is played.
func TestSimulateVary(t *testing.T) {
	files(t, map[string]string{"rule.yaml": `
_rules_:
- _match_service_: [llm.dns]
  lb_policy: prefix_cache
  lb_config: {max_inflight: 1}
`})
	names, refused := column(t, "refused", "--policy", "random", "--policy", "prefix_cache", "--config", "rule.yaml",
		"--think", "1ms", "--vary", "lb_config.max_inflight=2,400", "--vary", "lb_config.prefix.credit=1")
	want := []string{"random"}
	for _, of := range []string{"prefix_cache", "rule.yaml"} {
		for _, cap := range []string{"2", "400"} {
			want = append(want, of+" max_inflight="+cap+" prefix.credit=1")
		}
	}
	if !slices.Equal(names, want) {
		t.Fatalf("%q, want %q", names, want)
	}
	for i, name := range want {
		if few := i == 1 || i == 3; few != (refused[name] != "0") {
			t.Errorf("%s: %s refused", name, refused[name])
		}
	}
}

// A key that the plugin does not have is played without effect, and once said to be so.
func TestSimulateWarns(t *testing.T) {
	status, _, errs := play("", append(quickly, "--policy", "prefix_cache", "--vary", "lb_config.foreign=1,2")...)
	const want = "--policy prefix_cache --vary lb_config.foreign=1: lb_config.foreign is no key of this plugin"
	if status != 0 || !strings.HasPrefix(errs, want) || strings.Count(errs, "\n") != 1 {
		t.Errorf("%d %s, want one line: %s", status, errs, want)
	}
}

func TestLayoutsRefused(t *testing.T) {
	for _, c := range []struct{ flags, want string }{
		{"--region eu=3", "more than one --region"},
		{"--region eu", "like eu=4"},
		{"--region eu=3,share=0 --region us=1", "like eu=4"},
		{"--region eu=3,zone=25", "like eu=4"},
		{"--region eu=3,size=2", "like eu=4"},
		{"--region e;u=3", "like eu=4"},
		{"--region eu=3 --region eu=3", "twice"},
		{"--region eu=0 --region us=1", "1 endpoint"},
		{"--region eu=3,zone=1 --region us=1", "for a --day"},
		{"--region eu=3 --region us=1 --endpoints 3", "[endpoints region prefill]"},
		{"--region eu=3 --region us=1 --rtt fast", "like 80ms"},
		{"--region eu=3 --region us=1 --rtt eu:ap=8ms", "like 80ms"},
		{"--region eu=3 --region us=1 --rtt eu:eu=8ms", "like 80ms"},
		{"--region eu=3 --region us=1 --policy prefix_cache --forward", "says when a server is full"},
		{"--rtt 8ms", "--rtt is for a --region"},
		{"--forward", "--forward is for a --region"},
		{"--night 0.1", "--night is for a --day"},
		{"--day 1ms", "a second"},
		{"--day 10s --night 2", "from 0 to 1"},
		{"--day 10s --requests 10", "[day requests]"},
		{"--prefill 2", "[prefill decode]"},
		{"--prefill 0 --decode 2", "1 endpoint"},
		{"--prefill 1 --decode 2 --transfer-ms -1", "0 to 1000"},
		{"--prefill 1 --decode 2 --within 1s", "[within prefill]"},
		{"--gateways 0", "from 1 to 64"},
		{"--transfer-ms 1", "--transfer-ms is for a --prefill"},
		{"--servers 2 --endpoints 2", "[servers endpoints]"},
		{"--servers 2:speed=0", "like 2:speed"},
		{"--servers 2:speed=1e-300", "--servers 2:speed=1e-300: times must"},
		{"--servers 2:color=1", "like 2:speed"},
		{"--servers 2:cache=1", "like 2:speed"},
		{"--servers 0", "1 endpoint"},
		{"--vary lb_config.max_inflight", "a key and values"},
		{"--policy random --vary lb_config.max_inflight=1", "have no keys"},
		{"--policy prefix_cache --vary lb_config.max_infligth=1", "did you mean max_inflight"},
		{"--policy prefix_cache --vary lb_policy.x=1", "lb_policy has no keys"},
	} {
		flags := []string{"simulate"}
		if !strings.Contains(c.flags, "--requests") && !strings.Contains(c.flags, "--day") {
			flags = quickly[:len(quickly):len(quickly)]
		}
		if status, out, errs := play("", append(flags, strings.Fields(c.flags)...)...); status != statusFault ||
			!strings.Contains(errs, c.want) {
			t.Errorf("%s: status %d, %s%s, want %q", c.flags, status, out, errs, c.want)
		}
	}
}
