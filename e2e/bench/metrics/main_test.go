package metrics

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/benchtest"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/loadgen"
)

// madeUp is a report of policies with these p99 of TTFT in milliseconds, by round; all have the same herd.
func madeUp(t *testing.T, cv float64, p99 map[string][]int) *report {
	t.Helper()
	rep := &report{settings: settings{
		Settings: bench.Settings{Rounds: 3, Workers: 4, Seed: 7}, load: 0.8, span: time.Second,
	}, fleet: made(t)}
	for _, p := range contenders(true) {
		rounds, ok := p99[p.Name]
		if !ok {
			continue
		}
		rep.policies = append(rep.policies, p)
		for _, ms := range rounds {
			r := compare.Result{
				Policy: p.Name,
				Summary: loadgen.Summary{
					Requests: 200, TTFT: loadgen.Quantiles{P99: time.Duration(ms) * time.Millisecond},
				},
				Engines: compare.Engines{Queued: 20, Preemptions: 7, Loads: 40},
			}
			rep.Add("", p.Name, result{Result: r, work: 1.25, herd: herd{CV: cv, Chance: 0.15, Windows: 3}})
		}
	}
	return rep
}

func TestLineComparesRoundByRound(t *testing.T) {
	for _, c := range []struct {
		name string
		own  []int
		cv   float64
		lr   float64
		met  bool
	}{
		{"half", []int{100, 50, 2000}, 0.25, 0.5, true},
		{"more than half", []int{104, 52, 2}, 0.25, 0.52, false},
		{"a herd", []int{100, 50, 2000}, 0.31, 0.5, false},
	} {
		l := madeUp(t, c.cv, map[string][]int{nativeName: {200, 100, 4000}, ownName: c.own}).line()
		if l["ttft_p99_vs_least_request"] != c.lr || l["target_met"] != c.met || l["herd_cv"] != c.cv {
			t.Errorf("%s: %+v, want %v, %v", c.name, l, c.lr, c.met)
		}
		if l["herd_cv_by_chance"].(bench.Spread).Median != 0.15 || l["queued_percent"].(bench.Spread).Median != 10 ||
			l["preemptions"].(bench.Spread).Max != 7 {
			t.Errorf("%s: %+v", c.name, l)
		}
		if l["ttft_p99_vs_global_least_request"] != nil {
			t.Errorf("%s: %+v", c.name, l)
		}
	}
}

func TestLineNamesItsFields(t *testing.T) {
	all := map[string][]int{
		nativeName: {400}, countsName: {200}, ownName: {100},
	}
	raw, err := json.Marshal(madeUp(t, 0.17, all).line())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"bench":"metrics"`, `"ttft_p99_vs_least_request":0.25,`, `"ttft_p99_vs_global_least_request":0.5,`,
		`"herd_cv":0.17,`, `"herd_cv_beyond_chance":{"median":0.08`, `"target_met":true`,
	} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("the line lacks %s: %s", want, raw)
		}
	}
	raw, err = json.Marshal(madeUp(t, 0.17, map[string][]int{nativeName: {400}}).line())
	if err != nil || strings.Contains(string(raw), "ttft") || strings.Contains(string(raw), "herd") {
		t.Errorf("endpoint_metrics was not played, but the line is %s, %v", raw, err)
	}
}

func TestReportHasConfiguration(t *testing.T) {
	rep := madeUp(t, 0.2, map[string][]int{
		nativeName: {900, 910, 905}, ownName: {200, 210, 205},
	})
	benchtest.Report(t, rep.configuration(), rep.table(), rep.line(),
		"205 (200..210)", "Envoy's least_request", `"lb_policy":"endpoint_metrics"`, "224 KV blocks",
		"40 ms to load one", "adapter-1 16 %",
		"1.25 (1.25..1.25)",
	)
}

// TestResultSeparatesAdapters has the base model fast and adapters slow, and one request that failed.
func TestResultSeparatesAdapters(t *testing.T) {
	reqs := []loadgen.Request{{Model: baseModel}, {Model: "adapter-1"}, {Model: "adapter-2"}, {Model: baseModel}}
	r := resultOf(compare.Result{Samples: []loadgen.Sample{
		{ID: 2, TTFT: 30, Endpoint: "1"},
		{ID: 0, TTFT: 10, Endpoint: "0"},
		{ID: 3, TTFT: 99, Error: loadgen.ErrReset},
		{ID: 1, TTFT: 20, Endpoint: "0"},
	}}, reqs, made(t))
	if r.base.Max != 10 || r.adapters.P50 != 20 || r.adapters.Max != 30 {
		t.Errorf("base model %+v, adapters %+v", r.base, r.adapters)
	}
	if r.work <= 1 || r.herd.Windows != 0 {
		t.Errorf("work %v, %+v", r.work, r.herd)
	}
}

func TestContenders(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range contenders(true) {
		if d := p.Describe(); d == "" || seen[d] || seen[p.Name] {
			t.Errorf("%s is described as %q", p.Name, d)
		} else {
			seen[d], seen[p.Name] = true, true
		}
		if p.Plugin != "" && !json.Valid([]byte(p.Plugin)) {
			t.Errorf("%s: %s", p.Name, p.Plugin)
		}
	}
	if len(contenders(false)) != 3 {
		t.Errorf("the contenders are %q", names(contenders(false)))
	}
	s := settings{policies: ownName + "," + nativeName, variants: []compare.Policy{{Name: "more"}}}
	if got, err := s.selected(); err != nil || strings.Join(names(got), " ") != nativeName+" "+
		ownName+" more" {
		t.Errorf("selected %q, %v", names(got), err)
	}
	if got, err := (settings{policies: "most_request"}).selected(); err == nil {
		t.Errorf("selected %q", names(got))
	}
}
