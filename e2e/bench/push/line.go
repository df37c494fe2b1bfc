package main

import (
	"math"
	"strings"

	"github.com/warmgate/warmgate/e2e/bench"
)

// The targets, of medians.
const (
	targetTokensVsBlind       = 1.25
	targetTTFTVsBlind         = 1. / 5
	targetTokensVsOutstanding = 1.2
	targetCached              = 0.92
	targetTTFTVsBest          = 1.0
)

// line is the last line of the output: figures of push: pending, medians of the rounds. Ratios are formed round by
// round, but for the one to the best of the others, which is of medians. What was not played is absent.
type line struct {
	Bench            string        `json:"bench"`
	Own              string        `json:"own"` // the contender that the figures are of
	TokensVsBlind    *float64      `json:"tokens_vs_blind,omitempty"`
	TTFTVsBlind      *float64      `json:"ttft_p90_vs_blind,omitempty"`
	TokensVsOutst    *float64      `json:"tokens_vs_outstanding,omitempty"` // of the cap with the most tokens/s
	BestCap          int           `json:"best_cap,omitempty"`
	Trees24Cached    *float64      `json:"trees24_cached,omitempty"`
	Trees24VsBest    *float64      `json:"trees24_ttft_p99_vs_best,omitempty"` // variants are not among the others
	Trees24Best      string        `json:"trees24_best,omitempty"`
	TokensVsBlindAll *bench.Spread `json:"tokens_vs_blind_spread,omitempty"`
	TTFTVsBlindAll   *bench.Spread `json:"ttft_p90_vs_blind_spread,omitempty"`
	TokensVsOutstAll *bench.Spread `json:"tokens_vs_outstanding_spread,omitempty"`
	Trees24CachedAll *bench.Spread `json:"trees24_cached_spread,omitempty"`
	Trees24TTFTAll   *bench.Spread `json:"trees24_ttft_p99_ms,omitempty"`
	ShiftsVsBlind    *bench.Spread `json:"shifts2_tokens_vs_blind,omitempty"`
	ShiftsVsOutst    *bench.Spread `json:"shifts2_tokens_vs_outstanding,omitempty"`
	CrowdVsBlind     *bench.Spread `json:"crowd24_tokens_vs_blind,omitempty"`
	CrowdTTFTVsBlind *bench.Spread `json:"crowd24_ttft_p90_vs_blind,omitempty"`
	LimitTokens      *float64      `json:"limit_tokens_vs_blind,omitempty"`   // the best of the limits, to simulated blind
	LimitTTFT        *float64      `json:"limit_ttft_p90_vs_blind,omitempty"` // the same
	LimitTokensOutst *float64      `json:"limit_tokens_vs_outstanding,omitempty"`
	LimitCached      *float64      `json:"limit_trees24_cached,omitempty"`
	Rounds           int           `json:"rounds"`
	Workers          int           `json:"workers"`
	Errors           int           `json:"errors"`
	Met              bool          `json:"target_met"` // all five figures
}

func (rep *report) line() line {
	s := rep.settings
	l := line{Bench: "push", Own: s.own, Rounds: s.rounds, Workers: s.workers, Errors: rep.errors()}
	l.TokensVsBlind, l.TokensVsBlindAll = rep.against("trees2", blindName, tokens)
	l.TTFTVsBlind, l.TTFTVsBlindAll = rep.against("trees2", blindName, ttftP90)
	if best := rep.bestCap("trees2"); best != nil {
		l.BestCap = best.cap
		l.TokensVsOutst, l.TokensVsOutstAll = rep.against("trees2", best.name, tokens)
	}
	if ours := rep.rounds("trees24", s.own); len(ours) > 0 {
		found, ttft := bench.SpreadBy(ours, cached), bench.SpreadBy(ours, ttftP99)
		l.Trees24Cached, l.Trees24CachedAll, l.Trees24TTFTAll = &found.Median, &found, &ttft
		if best, p99 := rep.lowest("trees24", ttftP99); best != "" {
			ratio := ttft.Median / p99
			l.Trees24Best, l.Trees24VsBest = best, &ratio
		}
	}
	_, l.ShiftsVsBlind = rep.against("shifts2", blindName, tokens)
	if best := rep.bestCap("shifts2"); best != nil {
		_, l.ShiftsVsOutst = rep.against("shifts2", best.name, tokens)
	}
	_, l.CrowdVsBlind = rep.against("crowd24", blindName, tokens)
	_, l.CrowdTTFTVsBlind = rep.against("crowd24", blindName, ttftP90)
	l.LimitTokens = rep.limit("trees2", simulatedBlind, tokens, 1)
	l.LimitTokensOutst = rep.limit("trees2", simulatedOutstanding, tokens, 1)
	l.LimitTTFT = rep.limit("trees2", simulatedBlind, ttftP90, -1)
	l.LimitCached = rep.limit("trees24", "", cached, 1)
	l.Met = atLeast(l.TokensVsBlind, targetTokensVsBlind) && atMost(l.TTFTVsBlind, targetTTFTVsBlind) &&
		atLeast(l.TokensVsOutst, targetTokensVsOutstanding) && atLeast(l.Trees24Cached, targetCached) &&
		atMost(l.Trees24VsBest, targetTTFTVsBest)
	return l
}

func atLeast(figure *float64, limit float64) bool { return figure != nil && *figure >= limit }
func atMost(figure *float64, limit float64) bool  { return figure != nil && *figure <= limit }

// against returns the ratio of our figure to that of another contender: its median, and all of it; nil if either was
// not played.
func (rep *report) against(load, other string, of func(*result) float64) (*float64, *bench.Spread) {
	ours, theirs := rep.rounds(load, rep.settings.own), rep.rounds(load, other)
	if len(ours) == 0 || len(theirs) == 0 {
		return nil, nil
	}
	s := bench.RatioBy(ours, theirs, of)
	return &s.Median, &s
}

// limit returns the best median of a figure over the limits, by the sign of better the highest or the lowest, over that
// of what it is compared with, if anything; nil if these were not played.
func (rep *report) limit(load, against string, of func(*result) float64, better float64) (best *float64) {
	over := 1.0
	if against != "" {
		over = bench.SpreadBy(rep.rounds(load, against), of).Median
	}
	for _, c := range rep.contenders {
		runs := rep.rounds(load, c.name)
		if !strings.HasPrefix(c.name, limitPrefix) || len(runs) == 0 || over == 0 {
			continue
		}
		if figure := bench.SpreadBy(runs, of).Median / over; best == nil || better*figure > better**best {
			best = &figure
		}
	}
	return best
}

// bestCap returns push: outstanding with the cap that has the most tokens a second in the median, or nil if none was
// played.
func (rep *report) bestCap(load string) *contender {
	var best *contender
	most := 0.0
	for i := range rep.contenders {
		c := &rep.contenders[i]
		if c.cap == 0 {
			continue
		}
		if rate := bench.SpreadBy(rep.rounds(load, c.name), tokens).Median; rate > most {
			best, most = c, rate
		}
	}
	return best
}

// lowest returns which of the others has the lowest median of a figure, and that; "" if there are none.
func (rep *report) lowest(load string, of func(*result) float64) (name string, figure float64) {
	figure = math.Inf(1)
	for _, c := range rep.contenders {
		if c.name == rep.settings.own || c.added {
			continue
		}
		if m := bench.SpreadBy(rep.rounds(load, c.name), of).Median; m < figure {
			name, figure = c.name, m
		}
	}
	return name, figure
}
