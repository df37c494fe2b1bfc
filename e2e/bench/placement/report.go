package placement

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/internal/simulate"
)

// result is what one contender did in one cell.
type result struct {
	ttft, p99, e2e, token float64 // ms: means, but for the p99 of TTFT
	cached, uneven        float64
	goodput               float64 // part of the requests in time, see targetOf
	requests              int
	samples               []sample // until the cell is scored
}

func resultOf(r *simulate.Result, samples []sample) result {
	out := result{cached: r.Cached, uneven: r.Uneven, samples: samples, requests: len(samples)}
	n := float64(max(1, len(samples)))
	for i := range samples {
		s := &samples[i]
		out.ttft += s.ttft * 1e3 / n
		out.e2e += s.total * 1e3 / n
		out.token += s.token * 1e3 / n
	}
	out.p99 = share(samples, 0.99, ttftOf) * 1e3
	return out
}

// figure is what is compared: the lower the better.
type figure struct {
	name string // in the last line
	get  func(*result) float64
}

var figures = []figure{
	{"e2e", func(r *result) float64 { return r.e2e }},
	{"ttft", func(r *result) float64 { return r.ttft }},
	{"ttft_p99", func(r *result) float64 { return r.p99 }},
	{"tpot", func(r *result) float64 { return r.token }},
}

func goodput(r *result) float64 { return r.goodput }

var columns = bench.Columns[result]{
	bench.Col("TTFT mean ms", "%.1f", figures[1].get),
	bench.Col("p99", "%.0f", figures[2].get),
	bench.Col("E2E mean ms", "%.0f", figures[0].get),
	bench.Col("ms per token", "%.2f", figures[3].get),
	bench.Col("in time", "%.3f", goodput),
	bench.Col("cached share", "%.3f", func(r *result) float64 { return r.cached }),
	bench.Col("max/mean per engine", "%.2f", func(r *result) float64 { return r.uneven }),
}

func (rep *report) table() *bench.Table {
	return rep.Tabulate(columns, "cell, policy: median (min..max)")
}

// others returns the contenders that are neither the plugin's nor all-knowing.
func (rep *report) others() (names []string) {
	for i := range rep.contenders {
		if c := &rep.contenders[i]; !c.own() && c.Name != clairvoyantName {
			names = append(names, c.Name)
		}
	}
	return names
}

// versus compares a contender with the best of the others in a cell, by medians: ratios above 1 are a lower latency of
// the other, and below 1 of a share. It reports false if there are no others.
func (rep *report) versus(cell, name string, get func(*result) float64, most bool) (best string, ratio float64) {
	value := math.Inf(1)
	if most {
		value = -1
	}
	for _, other := range rep.others() {
		m := rep.Median(cell, other, get)
		if m != nil && (most && *m > value || !most && *m < value) {
			best, value = other, *m
		}
	}
	if best == "" {
		return "", math.NaN()
	}
	return best, rep.Ratio(cell, name, best, get).Median
}

// rival returns the one of the others with the lowest mean latency in a cell, "" if there are none.
func (rep *report) rival(cell string) string {
	best, _ := rep.versus(cell, rep.settings.Own, figures[0].get, false)
	return best
}

// room returns the mean latency over that of the one that knows everything.
func (rep *report) room(cell, name string) float64 {
	return rep.Ratio(cell, name, clairvoyantName, figures[0].get).Median
}

// lmetricWins reports whether LMetric has a lower figure than a contender by more than noise: with every seed, and by
// more than a hundredth.
func (rep *report) lmetricWins(cell, name string, get func(*result) float64) bool {
	const least = 1.01
	s := rep.Ratio(cell, name, lmetricName, get)
	return s != nil && s.Min > 1 && s.Median > least
}

// glance returns a cell in a line.
func (rep *report) glance(cell string) string {
	out := ""
	for i := range rep.contenders {
		c := &rep.contenders[i]
		if !c.own() {
			continue
		}
		out += " " + c.Name
		for _, f := range figures {
			best, ratio := rep.versus(cell, c.Name, f.get, false)
			out += fmt.Sprintf(" %s %.3f of %s", f.name, ratio, best)
		}
		out += ";"
	}
	return out
}

// summary is how the plugin's contenders are in each cell against the best of the others.
func (rep *report) summary() *bench.Table {
	t := &bench.Table{Head: []string{"cell", "policy"}}
	for _, f := range figures {
		t.Head = append(t.Head, f.name+", of the best")
	}
	t.Head = append(t.Head, "in time, of the best", "e2e, of "+clairvoyantName, "LMetric wins")
	for _, cell := range rep.cells {
		for i := range rep.contenders {
			c := &rep.contenders[i]
			if !c.own() {
				continue
			}
			row, wins := []string{cell.name, c.Name}, ""
			for _, f := range figures {
				best, ratio := rep.versus(cell.name, c.Name, f.get, false)
				row = append(row, fmt.Sprintf("%.3f %s", ratio, best))
				if rep.lmetricWins(cell.name, c.Name, f.get) {
					wins += f.name + " "
				}
			}
			best, ratio := rep.versus(cell.name, c.Name, goodput, true)
			t.Add(append(row, fmt.Sprintf("%.3f %s", ratio, best), fmt.Sprintf("%.3f", rep.room(cell.name, c.Name)),
				wins)...)
		}
	}
	return t
}

// configuration returns what was compared.
func (rep *report) configuration() (lines []string) {
	for i := range rep.cells {
		lines = append(lines, "cell "+rep.cells[i].name+": "+rep.cells[i].about)
	}
	for i := range rep.contenders {
		lines = append(lines, rep.contenders[i].Name+": "+rep.contenders[i].about)
	}
	lines = append(lines, fmt.Sprintf("in time: TTFT and the time per token are within %g and %g of what nine in ten "+
		"requests have with %s", spareTTFT, spareToken, clairvoyantName))
	for _, name := range slices.Sorted(maps.Keys(rep.adapts)) {
		lines = append(lines, fmt.Sprintf("requests go on to come to an engine whose speed halves for %.1f s with %s",
			rep.adapts[name], name))
	}
	return append(append(lines, rep.fit.line()), rep.Notes...)
}

// tied is how many times worse than the best of the others a figure may be and still count as equal.
const tied = 1.05

// lineOf returns the figures of one of the plugin's contenders: the worst of all cells, with where that is.
func (rep *report) lineOf(name string) bench.Line {
	l, at := bench.Line{}, map[string]string{}
	worst := func(key, cell string, v float64, most bool) {
		if math.IsNaN(v) { // there are no others
			return
		}
		before := l.Value(key)
		if l.Worst(key, v, most); math.IsNaN(before) || l.Value(key) != before {
			at[key] = cell
		}
	}
	above, wins := map[string][]string{}, map[string][]string{}
	anyWins := []string{}
	for _, c := range rep.cells {
		won := false
		rival := rep.rival(c.name)
		for _, f := range figures {
			_, ratio := rep.versus(c.name, name, f.get, false)
			worst(f.name+"_vs_best_max", c.name, ratio, true)
			if s := rep.Ratio(c.name, name, rival, f.get); s != nil {
				worst(f.name+"_vs_lowest_e2e_max", c.name, s.Median, true)
			}
			if ratio > tied {
				above[f.name] = append(above[f.name], c.name)
			}
			if rep.lmetricWins(c.name, name, f.get) {
				wins[f.name] = append(wins[f.name], c.name)
				won = won || f.name == "e2e" || f.name == "ttft"
			}
		}
		if won {
			anyWins = append(anyWins, c.name)
		}
		_, ratio := rep.versus(c.name, name, goodput, true)
		worst("slo_goodput_vs_best", c.name, ratio, false)
		worst("e2e_vs_clairvoyant_max", c.name, rep.room(c.name, name), true)
	}
	l["worst_cells"], l["cells_above"] = at, above
	l["lmetric_wins"], l["lmetric_wins_by"], l["lmetric_wins_cells"] = float64(len(anyWins)), wins, anyWins
	if s, ok := rep.adapts[name]; ok {
		l["adapt_s"] = s
	}
	return l
}

// targets are those of the last line.
var targets = []bench.Target{
	{Name: "e2e_vs_best_max", Limit: tied},
	{Name: "ttft_vs_best_max", Limit: tied},
	{Name: "ttft_p99_vs_best_max", Limit: tied},
	{Name: "tpot_vs_best_max", Limit: tied},
	{Name: "lmetric_wins", Limit: 0},
	{Name: "adapt_s", Limit: 10},
}

// line returns the last line of the output.
func (rep *report) line() bench.Line {
	s := rep.settings
	l := rep.lineOf(s.Own)
	l["bench"], l["rounds"], l["seed"], l["cells"], l["own"] = "placement", s.Rounds, s.Seed, len(rep.cells), s.Own
	l["decision_us"] = rep.decision.micros
	l.Figure("decision_wasm_us", rep.decision.wasm)
	l.Figure("decision_wasm_metrics_us", rep.decision.wasmMetrics)
	l["h200_ttft_error"], l["h200_tpot_error"] = rep.fit.ttft.Mean, rep.fit.token.Mean
	variants := map[string]bench.Line{}
	for i := range rep.contenders {
		if c := &rep.contenders[i]; c.own() && c.Name != s.Own {
			variants[c.Name] = rep.lineOf(c.Name)
		}
	}
	l["variants"] = variants
	missed := bench.TargetNames(l.Missed(targets))
	l["missed"], l["target_met"] = missed, len(missed) == 0 && l.Meets(targets)
	return l
}
