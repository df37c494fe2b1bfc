package attacks

import "github.com/warmgate/warmgate/e2e/bench"

// figure is one figure of the last line, that of the attack with the largest median.
type figure struct {
	name   string
	limit  float64 // at most
	value  float64
	spread bench.Spread
	null   bench.Spread // what runs without attack show
	worst  string       // attack
}

// target is the required value of a figure.
type target struct {
	name  string
	limit float64
	part  func(*attack) bool // has a part in it
	get   func(*result) float64
	null  func(*result) float64
	most  bool // every round counts, not the one in the middle
}

var targets = []target{
	{
		"displaced_max", 2, func(a *attack) bool { return a.moved },
		(*result).perShare, (*result).null, false,
	},
	{
		"ejected_by_clients", 0, func(a *attack) bool { return a.ejection },
		func(r *result) float64 { return r.ejected }, func(r *result) float64 { return r.ejectedNull }, true,
	},
	{
		"fast_4xx_share", 0.1, isFast,
		func(r *result) float64 { return r.fast }, func(r *result) float64 { return r.fastNull }, false,
	},
	{
		"cap_passed", 0, isCapped,
		func(r *result) float64 { return r.passed }, func(r *result) float64 { return r.passedNull }, true,
	},
	{
		"matching_lost", 0.02, func(a *attack) bool { return a.matching },
		func(r *result) float64 { return r.lost }, func(r *result) float64 { return r.lostNull }, false,
	},
	{
		"script_ms_max", 2, onScripts,
		func(r *result) float64 { return r.script }, func(r *result) float64 { return r.scriptNull }, false,
	},
	{
		"honest_p99_ratio", 1.1, func(a *attack) bool { return a.latency },
		func(r *result) float64 { return r.p99 }, func(r *result) float64 { return r.p99Null }, false,
	},
}

// figures returns the figures that were measured, in the order of the targets.
func (rep *report) figures() []figure {
	var out []figure
	for _, t := range targets {
		f, found := figure{name: t.name, limit: t.limit}, false
		for i := range rep.attacks {
			if !t.part(&rep.attacks[i]) || len(rep.results[i]) == 0 {
				continue
			}
			spread := bench.SpreadBy(rep.results[i], t.get)
			value := spread.Median
			if t.most {
				value = spread.Max
			}
			if !found || value > f.value {
				f.value, f.spread, f.worst = value, spread, rep.attacks[i].String()
				f.null = bench.SpreadBy(rep.results[i], t.null)
			}
			found = true
		}
		if found {
			out = append(out, f)
		}
	}
	return out
}

// line returns the last line of the output. A figure is that of the worst attack: the median of the rounds, or for what
// must not happen at all the largest. What was not played is absent.
// docs/benchmarks/attacks.md describes the figures.
func (rep *report) line() bench.Line {
	s := rep.settings
	out := bench.Line{
		"bench": "attacks", "rounds": s.Rounds, "span_s": s.span.Seconds(), "workers": s.Workers, "seed": s.Seed,
	}
	missed, figures := []string{}, rep.figures()
	for _, f := range figures {
		out[f.name], out[f.name+"_worst"] = f.value, f.worst
		out[f.name+"_spread"], out[f.name+"_null"] = f.spread, f.null
		if f.value > f.limit {
			missed = append(missed, f.name)
		}
	}
	native := 0.0
	for i := range rep.attacks {
		if rep.attacks[i].ejection {
			native = max(native, bench.SpreadBy(rep.results[i], func(r *result) float64 { return r.native }).Max)
		}
	}
	out["ejected_by_envoy"], out["missed"] = native, missed
	out["target_met"] = len(missed) == 0 && len(figures) == len(targets)
	return out
}
