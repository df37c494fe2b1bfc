package placement

import (
	"context"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/benchtest"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/internal/mooncake"
	"github.com/warmgate/warmgate/internal/simulate"
)

// shortRun plays the short form, one round.
func shortRun(t *testing.T) *report {
	t.Helper()
	s := settings{short: true}
	s.Rounds, s.Lanes, s.Seed, s.Own = 1, 2, 1, ownName
	s.variants = []compare.Policy{{Name: "counts", Plugin: `{"lb_policy":"global_least_request"}`}}
	rep := &report{settings: s, adapts: map[string]float64{}}
	if err := rep.choose(); err != nil {
		t.Fatal(err)
	}
	if err := rep.play(context.Background()); err != nil {
		t.Fatal(err)
	}
	return rep
}

// TestShort plays the short form twice: the figures are the same, what is compared is in the last line, and who
// looks for cached prompts finds more of them than who does not.
func TestShort(t *testing.T) {
	rep := shortRun(t)
	if err := rep.measure(); err != nil {
		t.Fatal(err)
	}
	benchtest.Published(t, func(w io.Writer) error {
		return bench.Publish(w, "", rep.configuration(), rep.table(), rep.line(), rep.summary())
	}, "e2e_vs_best_max", "ttft_vs_best_max", "ttft_p99_vs_best_max", "tpot_vs_best_max", "lmetric_wins",
		"slo_goodput_vs_best", "adapt_s", "decision_us", "h200_ttft_error", "off by", "clairvoyant", `"counts":{`)
	again := shortRun(t)
	rep.Each(func(cell, name string, runs []result) {
		if other := again.Of(cell, name); other[0].e2e != runs[0].e2e || other[0].p99 != runs[0].p99 {
			t.Errorf("%s, %s: %+v, and then %+v", cell, name, runs[0], other[0])
		}
		if least := rep.Of(cell, "least_request")[0].cached; name == ownName && runs[0].cached < least {
			t.Errorf("%s: %.3f cached, %.3f with least_request", cell, runs[0].cached, least)
		}
		if runs[0].requests < 500 || runs[0].samples != nil || !(runs[0].goodput >= 0 && runs[0].goodput <= 1) {
			t.Errorf("%s, %s: %+v", cell, name, runs[0])
		}
	})
	if _, ok := rep.adapts["ring_hash"]; ok {
		t.Error("ring_hash takes requests off a slow engine")
	}
	if s, ok := rep.adapts[ownName]; !ok || s > 30 {
		t.Errorf("%s takes them off after %g s, %v", ownName, s, ok)
	}
}

// TestTargetsAreMet has engines of unequal speed nearly as busy as they can be: more requests are in time if the plugin
// knows what that is.
func TestTargetsAreMet(t *testing.T) {
	rep := playedCell(t, settings{cells: "speeds2.5-97", policies: lmetricName, targets: true})
	cell := rep.cells[0].name
	told, untold := rep.Median(cell, targetsName, goodput), rep.Median(cell, ownName, goodput)
	if *told < *untold+0.05 {
		t.Errorf("%.3f are in time with targets, %.3f without", *told, *untold)
	}
}

// TestConversationsStay: behind one prompt for all, at low load, the first token of a turn comes about as soon as with
// sessions that stay where they are, and answers sooner.
func TestConversationsStay(t *testing.T) {
	const sessions = "ring_hash"
	rep := playedCell(t, settings{cells: "one30k-71", policies: sessions})
	cell := rep.cells[0].name
	ttft := rep.Ratio(cell, ownName, sessions, figures[1].get).Median
	e2e := rep.Ratio(cell, ownName, sessions, figures[0].get).Median
	if ttft > 1.08 || e2e > 0.99 {
		t.Errorf("%.3f of the time to the first token with %s, and %.3f of the latency", ttft, sessions, e2e)
	}
}

// playedCell plays the cell that the settings name, with two seeds.
func playedCell(t *testing.T, s settings) *report {
	t.Helper()
	s.Rounds, s.Lanes, s.Seed, s.Own = 2, 2, 2, ownName
	rep := &report{settings: s, adapts: map[string]float64{}}
	if err := rep.choose(); err != nil {
		t.Fatal(err)
	}
	if err := rep.play(context.Background()); err != nil {
		t.Fatal(err)
	}
	return rep
}

// reportOf returns a report of one cell with the mean latencies, by round, of some contenders.
func reportOf(of map[string][]float64) *report {
	rep := &report{cells: []cell{{name: "c"}}, adapts: map[string]float64{}}
	rep.settings.Own = ownName
	for name, latencies := range of {
		c := contender{Contender: simulate.Contender{Name: name}}
		if name == ownName {
			plugin, err := simulate.OfPolicy(ownName)
			if err != nil {
				panic(err)
			}
			c.Contender = plugin
		}
		rep.contenders = append(rep.contenders, c)
		for _, ms := range latencies {
			rep.Add("c", name, result{e2e: ms, ttft: ms, p99: ms, token: ms, goodput: 10 / ms})
		}
	}
	return rep
}

// TestVersus holds whom the plugin is compared with: the best of the others, but not the one that knows everything.
func TestVersus(t *testing.T) {
	rep := reportOf(map[string][]float64{
		ownName: {12, 22, 33}, "least_request": {30, 30, 30}, lmetricName: {10, 20, 30}, clairvoyantName: {1, 1, 1},
	})
	if best, ratio := rep.versus("c", ownName, figures[0].get, false); best != lmetricName || ratio != 1.1 {
		t.Errorf("%s, %g", best, ratio)
	}
	if best, ratio := rep.versus("c", ownName, goodput, true); best != lmetricName || math.Abs(ratio-1/1.1) > 1e-9 {
		t.Errorf("%s, %g in time", best, ratio)
	}
	l := rep.lineOf(ownName)
	if l["e2e_vs_best_max"] != 1.1 || l["e2e_vs_clairvoyant_max"] != 22.0 || l["tpot_vs_lowest_e2e_max"] != 1.1 ||
		l["lmetric_wins"] != 1.0 ||
		!slices.Equal(l["lmetric_wins_cells"].([]string), []string{"c"}) || l["adapt_s"] != nil {
		t.Errorf("%+v", l)
	}
	lone := reportOf(map[string][]float64{ownName: {1}})
	if _, ratio := lone.versus("c", ownName, figures[0].get, false); !math.IsNaN(ratio) {
		t.Errorf("%g without others", ratio)
	}
}

// TestLMetricWins holds what is more than noise: every round, and more than a hundredth.
func TestLMetricWins(t *testing.T) {
	for _, tc := range []struct {
		ours, theirs []float64
		want         bool
	}{
		{[]float64{11, 11, 11}, []float64{10, 10, 10}, true},
		{[]float64{11, 11, 9.9}, []float64{10, 10, 10}, false},
		{[]float64{10.05, 10.05, 10.05}, []float64{10, 10, 10}, false},
		{[]float64{9, 9, 9}, []float64{10, 10, 10}, false},
	} {
		rep := reportOf(map[string][]float64{ownName: tc.ours, lmetricName: tc.theirs})
		if got := rep.lmetricWins("c", ownName, figures[0].get); got != tc.want {
			t.Errorf("%v against %v: %v", tc.ours, tc.theirs, got)
		}
	}
	if reportOf(map[string][]float64{ownName: {9}}).lmetricWins("c", ownName, figures[0].get) {
		t.Error("LMetric wins without having played")
	}
}

// TestAdapted holds when requests are taken off the engine that has become slower.
func TestAdapted(t *testing.T) {
	const at = 100 * time.Second
	run := func(share func(since time.Duration) float64) []result {
		var r result
		for sent := time.Duration(0); sent < 300*time.Second; sent += time.Second {
			slow := int(share(sent-at)*100 + 0.5)
			for i := range 100 {
				s := sample{sent: sent, server: 1}
				if i < slow {
					s.server = 0
				}
				r.samples = append(r.samples, s)
			}
		}
		return []result{r}
	}
	step := func(after time.Duration) func(time.Duration) float64 {
		return func(since time.Duration) float64 {
			if since < after {
				return 0.25
			}
			return 0.15
		}
	}
	for _, after := range []time.Duration{0, 4 * time.Second, 12 * time.Second, 25 * time.Second} {
		got, ok := adapted(run(step(after)), at)
		if !ok || math.Abs(got-after.Seconds()) > 0.01 {
			t.Errorf("after %v: %g, %v", after, got, ok)
		}
	}
	if got, ok := adapted(run(func(time.Duration) float64 { return 0.25 }), at); ok {
		t.Errorf("never: %g", got)
	}
	if got, ok := adapted(nil, at); ok {
		t.Errorf("nothing: %g", got)
	}
}

// TestTarget holds what is in time.
func TestTarget(t *testing.T) {
	var all []sample
	for i := range 100 {
		all = append(all, sample{ttft: float64(i), token: float64(100 - i)})
	}
	of := targetOf(all)
	if of != (target{90 * spareTTFT, 91 * spareToken}) {
		t.Errorf("%+v", of)
	}
	if got := (target{89, 1000}).met(all); got != 0.9 {
		t.Errorf("first tokens in time: %g", got)
	}
	if got := (target{1000, 10}).met(all); got != 0.1 {
		t.Errorf("tokens in time: %g", got)
	}
	if (target{}).met(nil) != 0 || targetOf(nil) != (target{}) {
		t.Error("nothing is in time")
	}
}

// TestCells holds that cells have names of their own, and that those of a trace are played if it is there.
func TestCells(t *testing.T) {
	var trace []mooncake.Request
	for i := range 30 {
		trace = append(trace, mooncake.Request{Timestamp: 100 * i, Input: 900, Output: 20, HashIDs: []int{0, i % 7}})
	}
	without, all := cells(nil), cells(trace)
	seen := map[string]bool{}
	for _, c := range all {
		if seen[c.name] || c.about == "" || len(c.fleet) < 2 {
			t.Errorf("%+v", c)
		}
		seen[c.name] = true
		if !strings.HasPrefix(c.name, "mooncake") && c.name != "prefix-forty" {
			continue
		}
		policy, err := simulate.OfPolicy("random")
		if err != nil {
			t.Fatal(err)
		}
		load := &recorder{Load: c.loads(1)()}
		if r, err := simulate.Run(load, c.fleet, policy, 1, nil); err != nil || r.Served < 30 || load.refused > 0 {
			t.Errorf("%s: %+v, %v", c.name, r, err)
		}
	}
	if n := len(all) - len(without); n != 9 || !seen["prefix-trace"] || !seen["mooncake-apart-3.3"] {
		t.Errorf("%d cells of the trace, of %d", n, len(all))
	}
}
