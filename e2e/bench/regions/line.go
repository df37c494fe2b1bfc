package main

import "github.com/warmgate/warmgate/e2e/bench"

// line is the last line of the output. Its comparisons are of the contender that it names as its own, and absent unless
// that was played: of each, the worst of the cells. Ratios to region-local are formed round by round; those to the best
// of several contenders are of medians.
type line struct {
	Bench string `json:"bench"`
	Own   string `json:"own"`

	Throughput *float64 `json:"throughput_vs_local,omitempty"`  // tokens/s, on the skewed load
	Nine       *float64 `json:"nine_vs_twelve,omitempty"`       // 9 servers over region-local with 12, likewise
	P50        *float64 `json:"ttft_p50_vs_central,omitempty"`  // over the lowest of the central ones
	P90        *float64 `json:"ttft_p90_vs_central,omitempty"`  // likewise
	Cached     *float64 `json:"cached_share_vs_best,omitempty"` // less the highest of all others
	Ideal      *float64 `json:"ideal_vs_local,omitempty"`       // tokens/s of the ideal, as throughput_vs_local

	Spreads map[string]bench.Spread        `json:"throughput_vs_local_by,omitempty"` // by workload, on skewed
	Cells   map[string]map[string]cellLine `json:"cells"`                            // by workload@load and contender
	CPU     float64                        `json:"cpu_most"`                         // of the machine, the most of all runs
	Rounds  int                            `json:"rounds"`
	Workers int                            `json:"workers"`
	Errors  int                            `json:"errors"`            // of all contenders
	NotMet  []string                       `json:"not_met,omitempty"` // why target_met is false
	Met     bool                           `json:"target_met"`
}

// cellLine is what one contender did in a cell.
type cellLine struct {
	Tokens bench.Spread `json:"tokens_per_s"`
	P50    bench.Spread `json:"ttft_p50_ms"`
	P90    bench.Spread `json:"ttft_p90_ms"`
	Cached bench.Spread `json:"cached_share"`
	Errors int          `json:"errors"`
	Cut    int          `json:"cut_without_token"`     // requests of all runs, at the ends of these
	Long   int          `json:"cut_without_token_20s"` // of these, those that had waited for more than 20 s
	// requests of all runs that were forwarded, by where from, where to and why
	Forwarded counts `json:"forwarded,omitempty"`
}

func (rep *report) line() line {
	s := rep.settings
	l := line{
		Bench: "regions", Own: s.own, Rounds: s.rounds, Workers: s.workers, Errors: rep.errors(),
		Cells: map[string]map[string]cellLine{}, Spreads: map[string]bench.Spread{},
	}
	for i := range rep.cells {
		c := &rep.cells[i]
		of := map[string]cellLine{}
		for k := range rep.contenders {
			runs := rep.results[i][k]
			if len(runs) == 0 {
				continue
			}
			cut := allUnanswered(runs)
			of[rep.contenders[k].name] = cellLine{
				bench.SpreadBy(runs, tokens), bench.SpreadBy(runs, ttftP50), bench.SpreadBy(runs, ttftP90),
				bench.SpreadBy(runs, cached), allFailed(runs), cut.all, cut.long, allForwarded(runs),
			}
			l.CPU = max(l.CPU, bench.SpreadBy(runs, machine).Max)
		}
		l.Cells[c.key()] = of
		if c.load == skewed {
			l.compareLocal(rep, i)
		}
		l.compareOthers(rep, of)
	}
	l.NotMet = rep.unmet(&l)
	l.Met = len(l.NotMet) == 0
	return l
}

// compareLocal compares tokens/s with those of region-local in cell i.
func (l *line) compareLocal(rep *report, i int) {
	theirs := rep.rounds(i, localName)
	if ours := rep.rounds(i, l.Own); len(ours) > 0 && len(theirs) > 0 {
		ratio := bench.RatioBy(ours, theirs, tokens)
		l.Spreads[rep.cells[i].name] = ratio
		lower(&l.Throughput, ratio.Median)
	}
	if ours := rep.rounds(i, l.Own+nine); len(ours) > 0 && len(theirs) > 0 {
		lower(&l.Nine, bench.RatioBy(ours, theirs, tokens).Median)
	}
	if ideals := rep.rounds(i, idealName); len(ideals) > 0 && len(theirs) > 0 {
		lower(&l.Ideal, bench.RatioBy(ideals, theirs, tokens).Median)
	}
}

// compareOthers compares TTFT with that of the best central contender, and the cached share with the best of all, in a
// cell. Those with fewer servers, variants and the ideal are not among them.
func (l *line) compareOthers(rep *report, of map[string]cellLine) {
	ours, ok := of[l.Own]
	if !ok {
		return
	}
	var p50, p90, share *float64
	for _, c := range rep.contenders {
		theirs, played := of[c.name]
		if !played || c.name == l.Own || c.added || c.servers < servers {
			continue
		}
		higher(&share, theirs.Cached.Median)
		if c.central {
			lower(&p50, theirs.P50.Median)
			lower(&p90, theirs.P90.Median)
		}
	}
	if p50 != nil {
		higher(&l.P50, ours.P50.Median / *p50)
		higher(&l.P90, ours.P90.Median / *p90)
	}
	if share != nil {
		lower(&l.Cached, ours.Cached.Median-*share)
	}
}

// lower makes a figure that of x if that is lower, or if there was none.
func lower(figure **float64, x float64) {
	if *figure == nil || x < **figure {
		*figure = &x
	}
}

// higher makes a figure that of x if that is higher, or if there was none.
func higher(figure **float64, x float64) {
	if *figure == nil || x > **figure {
		*figure = &x
	}
}
