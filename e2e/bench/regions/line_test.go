package regions

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/benchtest"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/bench/scripted"
	"github.com/warmgate/warmgate/e2e/loadgen"
)

// ran is two runs of one contender: tokens/s, p50 and p90 of TTFT in ms, and cached share.
func ran(rate, p50, p90 int, cached float64) []result {
	r := result{Figures: scripted.Figures{Rate: float64(rate), Cached: cached}, cpu: bench.Used{Machine: 0.5}}
	r.Summary.TTFT = loadgen.Quantiles{
		P50: time.Duration(p50) * time.Millisecond, P90: time.Duration(p90) * time.Millisecond,
	}
	return []result{r, r}
}

// madeUp is a report of all cells with a contender of ours, which meets all targets with 970 tokens/s on 9 servers.
func madeUp(ofNine int) *report {
	rep := &report{settings: settings{
		Settings: bench.Settings{Rounds: 2, Own: ownName, Workers: 2}, rtt: apart, scale: 1,
	}}
	rep.cells, _ = cells(workloads(), "", "", 1)
	variant := local("variant", twelve, regional("variant"))
	variant.added = true
	rep.contenders = append(contenders(apart), variant)
	for i := range rep.cells {
		for _, c := range rep.contenders {
			runs := ran(900, 500, 1000, 0.9)
			switch c.name {
			case ownName:
				runs = ran(1200-10*i, 200+8*i, 100+4*i, 0.905)
				runs[1].forwarded = counts{"us>eu prefix": 1}
			case idealName:
				runs = ran(1300, 1, 1, 1)
			case ownName + nine:
				runs = ran(ofNine, 1, 1, 0.1)
			case localName:
				runs = ran(1000, 1, 1, 0.91)
			case localName + nine, variant.name:
				runs = ran(9000, 1, 1, 1)
			case compare.LeastRequest.Name:
				runs = ran(900, 450, 2000, 0.1)
			}
			if !c.playedOn(&rep.cells[i]) {
				runs = nil
			}
			rep.Add(rep.cells[i].key(), c.name, runs...)
		}
	}
	return rep
}

func TestLine(t *testing.T) {
	l := madeUp(970).line()
	for name, want := range map[string]float64{
		"throughput_vs_local": 1.16, "ideal_vs_local": 1.3, "nine_vs_twelve": 0.97, "ttft_p50_vs_central": 240. / 450,
		"ttft_p90_vs_central": 0.12, "throughput_vs_central": 1150. / 900, "cached_share_vs_best": -0.005,
		"cpu_most": 0.5,
	} {
		if got := l.Value(name); !(math.Abs(got-want) < 1e-9) {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	spreads, cells := l["throughput_vs_local_by"].(map[string]bench.Spread), cellsOf(l)
	if spreads["conversations"].Median != 1.2 || cells["trees2@even"]["round_robin"].P90.Median != 1000 {
		t.Errorf("%+v, %+v", spreads, cells["trees2@even"])
	}
	if l["target_met"] != true || l["not_met"] != nil || len(spreads) != 3 {
		t.Errorf("%+v", l)
	}
	without := madeUp(970)
	without.settings.Own = "another"
	l = without.line()
	if text, err := json.Marshal(l); err != nil || l["target_met"] != false ||
		strings.Contains(string(text), "central\":") || l["throughput_vs_local"] != nil ||
		len(cellsOf(l)["conversations@skewed"]) != len(without.contenders) {
		t.Errorf("of a contender that was not played: %s, %v", text, err)
	}
}

func cellsOf(l bench.Line) map[string]map[string]cellLine {
	return l["cells"].(map[string]map[string]cellLine)
}

// TestNotMet spoils a report that meets all targets, in one way after another.
func TestNotMet(t *testing.T) {
	drop := func(name string) func(rep *report) {
		return func(rep *report) { rep.Drop(rep.cells[3].key(), name) }
	}
	for _, c := range []struct {
		why   string
		spoil func(rep *report)
	}{
		{"trees2@even: least_request was not played", drop(compare.LeastRequest.Name)},
		{"trees2@even: vllm-router tuned was not played", drop("vllm-router tuned")},
		{"trees2@even: cross_region was not played", drop(ownName)},
		{"conversations@skewed was not played", func(rep *report) {
			rep.cells = rep.cells[1:]
		}},
		{"another load or distance than that of the targets", func(rep *report) { rep.settings.scale = 0.8 }},
		{"another load or distance than that of the targets", func(rep *report) { rep.settings.rtt *= 2 }},
		{"3 requests failed", func(rep *report) { rep.at(1, 5)[0].Failed = 3 }},
		{"trees2@skewed: nothing was forwarded", func(rep *report) { rep.at(2, 0)[1].forwarded = nil }},
		{"trees2@skewed: 2 requests without a token after 20s", func(rep *report) {
			rep.at(2, 1)[0].unanswered = unanswered{3, 2}
		}},
		{"nine_vs_twelve is 0.969, not 0.97", func(rep *report) {
			for i := range rep.at(0, 1) {
				rep.at(0, 1)[i].Rate = 969
			}
		}},
		{"ttft_p90_vs_central is 0.600, not 0.5", func(rep *report) {
			for i := range rep.at(5, 0) {
				rep.at(5, 0)[i].Summary.TTFT.P90 = 600 * time.Millisecond
			}
		}},
	} {
		rep := madeUp(970)
		c.spoil(rep)
		l := rep.line()
		if why, _ := l["not_met"].(bench.Reasons); l["target_met"] != false || len(why) != 1 || why[0] != c.why {
			t.Errorf("%q, want %q", why, c.why)
		}
	}
	others := madeUp(970)
	copy(others.at(0, 5), ran(1, 1, 1, 0))
	others.at(0, 5)[0].unanswered = unanswered{9, 9}
	if l := others.line(); l["not_met"] != nil || cellsOf(l)["conversations@skewed"]["local"].Cut != 9 {
		t.Errorf("others may take long: %q", l["not_met"])
	}
}

func TestReport(t *testing.T) {
	rep := madeUp(970)
	rep.at(2, 0)[1].cpu = bench.Used{Gateways: 0.75, Own: 0.5, Machine: 0.93}
	rep.noteLimits()
	text := benchtest.Report(t, rep.configuration(), rep.table(), rep.line(),
		"1180 (1180..1180)", "trees2@even, "+ownName, `"push":"pending"`, "skewed [120 40 40]",
		"trees2@skewed, cross_region: 93 % of the machine's CPU time were used, 1.25 cores",
		"15696 tokens of KV cache", `"throughput_vs_local":1.16,`,
	)
	if strings.Contains(text, "%!") {
		t.Error(text)
	}
}

// at returns what a contender did in a cell, by their numbers.
func (rep *report) at(cell, contender int) []result {
	return rep.Of(rep.cells[cell].key(), rep.contenders[contender].name)
}
