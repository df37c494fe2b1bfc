package leastrequest

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/benchtest"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

// madeUp is a report with the given p99 in milliseconds by policy and round.
func madeUp(p99 ...[]int) *report {
	rep := &report{settings: settings{
		Settings: bench.Settings{Rounds: len(p99[0]), Workers: 4}, span: time.Second, load: 0.7,
	}}
	if len(p99) == 4 {
		rep.settings.gateways = 4
	}
	for i, policy := range rep.settings.policies() {
		for _, ms := range p99[i] {
			d := time.Duration(ms) * time.Millisecond
			rep.Add("", policy.Name, compare.Result{
				Summary: loadgen.Summary{Latency: loadgen.Quantiles{P99: d}}, Queued: float64(ms) / 10,
				Placement: compare.Placement{Requests: 200, Queued: 30, BesideFree: 10, BesideIdle: 1},
				Fleet:     vllmsim.FleetState{Seconds: 10, QueueingWhileIdle: 0.5},
			})
		}
	}
	return rep
}

func TestLineComparesRoundByRound(t *testing.T) {
	for _, tc := range []struct {
		name   string
		report *report
		met    bool
	}{
		{"every round", madeUp([]int{900, 9000, 90}, []int{400, 4000, 40}, []int{200, 2000, 20}), true},
		{
			"one round is too near to round_robin",
			madeUp([]int{900, 900, 500}, []int{400, 400, 400}, []int{200, 200, 200}), false,
		},
		{
			"one round is above least_request",
			madeUp([]int{900, 900, 900}, []int{400, 150, 400}, []int{200, 200, 200}), false,
		},
	} {
		l := tc.report.line()
		if !(math.Abs(l.Value("p99_vs_round_robin")-2.0/9) < 1e-9) || l["p99_vs_least_request"] != 0.5 ||
			l["target_met"] != tc.met {
			t.Errorf("%s: %+v, want %v", tc.name, l, tc.met)
		}
		if l["queued_beside_free_percent"].(bench.Spread).Median != 5 ||
			l["queued_beside_idle_percent"].(bench.Spread).Median != 0.5 {
			t.Errorf("%s: %+v", tc.name, l)
		}
	}
	raw, err := json.Marshal(madeUp([]int{3}, []int{2}, []int{1}).line())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"bench":"leastrequest"`, `"p99_vs_round_robin":0.333`, `"p99_vs_least_request":0.5`} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("the line lacks %s: %s", want, raw)
		}
	}
}

func TestReportHasConfiguration(t *testing.T) {
	rep := madeUp([]int{900, 910, 905}, []int{400, 410, 405}, []int{200, 210, 205})
	benchtest.Report(t, rep.configuration(), rep.table(), rep.line(),
		"205 (200..210)", "Envoy's round_robin, no plugin", `"unit":"requests"`,
		"speeds [2 2 1 1 1 1 0.5 0.5]",
	)
}

func TestTargetOfSeveralGateways(t *testing.T) {
	for _, c := range []struct {
		ours []int
		met  bool
	}{{[]int{200, 190, 800}, true}, {[]int{201, 202, 100}, false}} {
		rep := madeUp([]int{400, 400, 400}, []int{350, 350, 350}, []int{300, 300, 300}, c.ours)
		got := rep.line()
		if got["target_met"] != c.met || got["gateways"] != 4 || got["p99_vs_round_robin"] != nil ||
			!(math.Abs(got.Value("p99_vs_alone")-got.Value("p99_vs_least_request")*4/3) < 1e-9) {
			t.Errorf("%v against 400: %+v", c.ours, got)
		}
	}
}

func TestTargetOfTheHerd(t *testing.T) {
	for _, c := range []struct {
		patient []float64
		met     bool
	}{{[]float64{0, 1, 0}, true}, {[]float64{0, 2, 0}, false}} {
		rep := madeUp([]int{400, 400, 400}, []int{350, 350, 350}, []int{300, 300, 300}, []int{100, 100, 100})
		rep.settings.herd = 50
		rep.apart = [][]float64{{60, 70, 80}, {20, 20, 20}, {10, 10, 10}, {2, 3, 4}, c.patient}
		got := rep.line()
		if got["target_met"] != c.met || got["herd_apart"].(bench.Spread).Median != 3 ||
			got["herd_apart_patient"].(bench.Spread).Max != c.patient[1] {
			t.Errorf("%v: %+v", c.patient, got)
		}
		if line := rep.herdLine(); !strings.Contains(line, "least_request 70 (60..80), full_scan 20 (20..20), "+
			"Warmgate 10 (10..10), Warmgate, shared 3 (2..4), ") {
			t.Errorf("the line is %q", line)
		}
	}
}
