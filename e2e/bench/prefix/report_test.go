package prefix

import (
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/benchtest"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/bench/scripted"
	"github.com/warmgate/warmgate/e2e/loadgen"
)

// figures are what a made-up run measured.
type figures struct {
	ttft, p99      float64 // ms
	cached, uneven float64
}

func (f figures) result() result {
	d := func(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
	sum := loadgen.Summary{
		Requests: 10, OK: 10, Tokens: 100, Elapsed: time.Second,
		TTFT: loadgen.Quantiles{Mean: d(f.ttft), P99: d(f.p99)}, Latency: loadgen.Quantiles{Mean: d(3 * f.ttft)},
	}
	return result{uneven: f.uneven, token: f.ttft / 10, Figures: scripted.Figures{Cached: f.cached, Summary: sum}}
}

// madeUp is a report in which every contender did the same with every workload, in two rounds of which the second is
// twice as slow; ours did what is given.
func madeUp(ours figures) *report {
	rep := &report{
		settings:  settings{Settings: bench.Settings{Rounds: 2, Workers: 2, Seed: 1}},
		workloads: append(workloads(), workload{name: traceName, kind: traceName}),
	}
	rep.workloads[0].capacity = capacityOf(&rep.workloads[0], 1)
	for _, c := range contenders() {
		if c.Name() != "sglang-router" {
			rep.contenders = append(rep.contenders, c)
		}
	}
	for _, w := range rep.workloads {
		for _, c := range rep.contenders {
			f := figures{100, 200, 0.9, 1.2}
			if c.Name() == ownName {
				f = ours
			}
			slow := f
			slow.ttft, slow.p99 = 2*f.ttft, 2*f.p99
			rep.Add(w.name, c.Name(), f.result(), slow.result())
		}
	}
	return rep
}

// TestLMetricWins holds that LMetric wins where it is better in all rounds, by more than a hundredth.
func TestLMetricWins(t *testing.T) {
	for _, tc := range []struct {
		ours figures
		by   []string
	}{
		{figures{102, 190, 0.9, 1.2}, []string{"e2e", "ttft", "tpot"}},
		{figures{99, 204, 0.9, 1.2}, []string{"ttft_p99"}},
		{figures{100.5, 200, 0.9, 1.2}, nil},
	} {
		rep := madeUp(tc.ours)
		wins, line := rep.lmetricWins("trees2"), rep.line()
		want := 0.0
		if len(tc.by) > 1 {
			want = float64(len(rep.workloads))
		}
		if !slices.Equal(wins, tc.by) || line["lmetric_wins"] != want {
			t.Errorf("%+v: by %v on %v workloads, want by %v on %g", tc.ours, wins, line["lmetric_wins"], tc.by, want)
		}
	}
	rep := madeUp(figures{102, 190, 0.9, 1.2})
	rep.Drop("*", lmetricName)
	if by := rep.lmetricWins("trees2"); by != nil {
		t.Errorf("it was not played, and wins by %v", by)
	}
}

// TestBetweenTokens holds that only answers of several tokens that came to their end count.
func TestBetweenTokens(t *testing.T) {
	ms := time.Millisecond
	samples := []loadgen.Sample{
		{Status: 200, TTFT: 10 * ms, Total: 30 * ms, Tokens: 11},
		{Status: 200, TTFT: 10 * ms, Total: 50 * ms, Tokens: 11},
		{Status: 200, TTFT: 10 * ms, Total: 50 * ms, Tokens: 1},
		{Status: 200, TTFT: 10 * ms, Total: 90 * ms, Tokens: 3, Error: "cut"},
	}
	if got := betweenTokens(samples); got != 3 || betweenTokens(nil) != 0 {
		t.Errorf("%g ms", got)
	}
}

func TestLineFormsRatiosWithinARound(t *testing.T) {
	line := madeUp(figures{40, 100, 0.95, 1.1}).line()
	for name, want := range map[string]float64{
		"sessions_ttft_vs_round_robin": 0.4, "sessions_cached": 0.95, "trees_cached": 0.95,
		"shared_prompt_ttft_p99_vs_affinity": 0.5, "shared_prompt_cached_over_affinity": 0.05,
		"trace_max_over_mean":  1.1,
		"forty_by_five_cached": 0.95, "forty_by_five_max_over_mean": 1.1, "forty_by_five_ttft_vs_vllm_router": 0.4,
	} {
		spread, ok := line[name+"_spread"].(bench.Spread)
		if !ok || math.Abs(spread.Median-want) > 1e-9 || math.Abs(spread.Max-spread.Min) > 1e-9 ||
			line[name] != spread.Median {
			t.Errorf("%s is %v, %+v, want %v in both rounds", name, line[name], spread, want)
		}
	}
	if line["target_met"] != true || line["errors"] != 0 || line["e2e_vs_best_max"] != 0.4 ||
		line["tpot_vs_best_max"] != 0.4 || line["lmetric_wins"] != 0.0 {
		t.Errorf("%v", line)
	}
	if _, err := json.Marshal(line); err != nil {
		t.Error(err)
	}
}

func TestLineNamesMissedTargets(t *testing.T) {
	for _, c := range []struct {
		ours figures
		want string // one of the missed
	}{
		{figures{51, 100, 0.95, 1.1}, "sessions_ttft_vs_round_robin"},
		{figures{40, 100, 0.79, 1.1}, "sessions_cached"},
		{figures{40, 100, 0.87, 1.1}, "trees_cached"},
		{figures{40, 111, 0.95, 1.1}, "shared_prompt_ttft_p99_vs_affinity"},
		{figures{40, 100, 0.84, 1.1}, "shared_prompt_cached_over_affinity"},
		{figures{40, 100, 0.95, 1.31}, "trace_max_over_mean"},
		{figures{40, 100, 0.95, 1.31}, "forty_by_five_max_over_mean"},
		{figures{40, 100, 0.872, 1.1}, "forty_by_five_cached"},
		{figures{96, 100, 0.95, 1.1}, "forty_by_five_ttft_vs_vllm_router"},
		{figures{40, 211, 0.95, 1.1}, "ttft_p99_vs_best of forty"},
	} {
		line := madeUp(c.ours).line()
		if missed := line["missed"].([]string); !slices.Contains(missed, c.want) || line["target_met"] != false {
			t.Errorf("%+v: missed %v, met %v, want %s", c.ours, missed, line["target_met"], c.want)
		}
	}
	for _, want := range []string{
		"agents_cached_vs_exact", "cached_vs_exact_min", "max_over_mean_max", "ttft_vs_best_max",
		"ttft_p99_vs_best_max",
	} {
		line := madeUp(figures{106, 211, 0.85, 1.31}).line()
		if missed := line["missed"].([]string); !slices.Contains(missed, want) {
			t.Errorf("missed %v, want %s", missed, want)
		}
	}
	slow := madeUp(figures{40, 100, 0.95, 1.1})
	ours := slow.Of("shared", ownName)
	ours[0].Summary.Tokens, ours[1].Summary.Tokens = 90, 90
	if missed := slow.line()["missed"].([]string); !slices.Equal(missed, []string{"tokens_vs_best of shared"}) {
		t.Errorf("fewer tokens per second: missed %v", missed)
	}
}

// TestTreesCountTheWorse checks that the lower of the two kinds of trees is reported, whichever it is.
func TestTreesCountTheWorse(t *testing.T) {
	for _, load := range []string{"trees2", "trees24"} {
		rep := madeUp(figures{40, 100, 0.95, 1.1})
		ours := rep.Of(load, ownName)
		ours[0].Cached, ours[1].Cached = 0.7, 0.7
		if got := rep.line()["trees_cached"]; got != 0.7 {
			t.Errorf("%s: trees_cached is %v", load, got)
		}
	}
}

func TestLineLeavesOutWhatWasNotPlayed(t *testing.T) {
	rep := madeUp(figures{40, 100, 0.95, 1.1})
	for _, c := range rep.contenders {
		if c.Name() != ownName {
			rep.Drop("*", c.Name())
		}
	}
	line := rep.line()
	if _, ok := line["sessions_ttft_vs_round_robin"]; ok {
		t.Error("a ratio without the other one")
	}
	if line["sessions_cached"] != 0.95 || line["target_met"] != false {
		t.Errorf("%v", line)
	}
	rep.Drop("*", ownName)
	if line := rep.line(); line["sessions_cached"] != nil || line["target_met"] != false {
		t.Errorf("without ours: %v", line)
	}
}

func TestReportHasConfiguration(t *testing.T) {
	rep := madeUp(figures{40, 100, 0.95, 1.1})
	rep.Note("something is missing")
	rep.Of("forty", ownName)[0].prediction = prediction{Requests: 7, Predicted: 0.5, Reported: 0.25, Off: 0.125}
	text := benchtest.Report(t, rep.configuration(), rep.table(), rep.line(),
		"40 conversations × 5 turns over 4 system prompts of 1000 tokens", `"lb_policy":"prefix_cache"`, "ring_hash by the session header",
		"60 sessions × 5 turns", "20 at once, which is 0.40 of the capacity", "of exact's",
		"without regard to load", "policy cache_aware with its defaults", "something is missing", "4 servers of 16 "+
			"sequences at once and 32768 tokens of KV cache",
		"prediction of prefix_cache on forty: cached share predicted "+
			"0.250 (0.000..0.500)", "sessions, prefix_cache", "60.0 (40.0..80.0)",
		"\n{", `"bench":"prefix"`,
	)
	if strings.Contains(text, "prediction of round_robin") {
		t.Error("a prediction of those who make none")
	}
}

func TestResultOf(t *testing.T) {
	answered := func(server string, prompt, cached int, match string) loadgen.Sample {
		s := loadgen.Sample{
			Endpoint: server, TTFT: time.Millisecond, Total: 2 * time.Millisecond, Tokens: 3,
			Usage: loadgen.Usage{Prompt: prompt, Cached: cached},
		}
		if match != "" {
			s.Header = http.Header{http.CanonicalHeaderKey(compare.MatchHeader): {match}}
		}
		return s
	}
	r := resultOf([]loadgen.Sample{
		answered("0", 100, 50, "0.25"), answered("0", 100, 0, "0.25"), answered("1", 200, 100, ""),
		{Error: loadgen.ErrReset},
	}, 4)
	if r.Cached != 0.375 || math.Abs(r.uneven-8.0/3) > 1e-9 || r.Summary.Failed() != 1 {
		t.Errorf("cached %v, uneven %v, %d failed", r.Cached, r.uneven, r.Summary.Failed())
	}
	if want := (prediction{Requests: 2, Predicted: 0.25, Reported: 0.25, Off: 0.25}); r.prediction != want {
		t.Errorf("prediction %+v, want %+v", r.prediction, want)
	}
	if empty := resultOf(nil, 4); empty.Cached != 0 || empty.uneven != 0 || empty.prediction != (prediction{}) {
		t.Errorf("of nothing: %+v", empty)
	}
}
