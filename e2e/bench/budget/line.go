package budget

import (
	"maps"

	"github.com/warmgate/warmgate/e2e/bench"
)

// The targets, of medians; the audit must be 0 in every round.
var (
	targets = []bench.Target{
		{Name: "makespan_vs_batches", Limit: 0.5},
		{Name: "share_error_max", Limit: 0.05},
		{Name: "tpm_excess", Limit: targetExcess},
		{Name: "wait_p99_large_vs_median", Limit: 3},
		{Name: "stampede", Limit: 2},
	}
	costTargets = []bench.Target{
		{Name: "schedule_per_s", Limit: targetPerSecond, Least: true},
		{Name: "schedule_p99_ms", Limit: 20},
	}
)

const (
	targetPerSecond = 5000
	// A call may be up to 60 ms longer on its way than another one: a rate brings a thousandth of a minute in that.
	targetExcess = 1.001
)

// targetBack is after how many seconds behind the lease slots are back; that is seen 20 ms later at most.
const targetBack = 1.02

// figures returns those of a contender, medians of the rounds.
func (rep *report) figures(c *contender) bench.Line {
	l := bench.Line{}
	median := func(name string, of func(*result) float64) { l.Number(name, rep.Median("", c.name, of)) }
	median("makespan_s", makespan)
	median("makespan_vs_perfect", overPerfect)
	median("share_error_max", func(r *result) float64 { return r.shareError })
	median("tpm_excess", tpmExcess)
	median("wait_p99_large_vs_median", waitRatio)
	median("refused_by_models", refused)
	if c.asks { // before they send
		median("asks_max_vs_mean", stampeded)
	}
	if ratio := rep.Ratio("", c.name, batchesName, makespan); ratio != nil {
		l["makespan_vs_batches"] = ratio.Median
	}
	wrong := 0 // in all rounds together
	for _, r := range rep.Of("", c.name) {
		wrong += r.audit()
		if r.deaths.workers > 0 {
			l.Worst("back_after_s", r.deaths.back.Seconds(), true)
		}
	}
	l["audit"] = wrong
	return l
}

// line returns the last line of the output, with the figures of the contender that is named as own, and of all.
// docs/benchmarks/budget.md describes them.
func (rep *report) line() bench.Line {
	s, all := rep.settings, map[string]bench.Line{}
	l := bench.Line{
		"bench": "budget", "own": s.Own, "rounds": s.Rounds, "tasks": s.tasks, "lease_ttl_s": s.ttl.Seconds(),
	}
	for i := range rep.contenders {
		if c := &rep.contenders[i]; len(rep.Of("", c.name)) > 0 {
			all[c.name] = rep.figures(c)
		}
	}
	if len(all) > 0 {
		l["contenders"] = all
	}
	maps.Copy(l, all[s.Own])
	if most, ok := all[crowdName]["asks_max_vs_mean"]; ok {
		l["stampede"] = most
	}
	if rep.costs != nil { // at half of the target of schedule_per_s
		l["schedule_per_s"] = bench.SpreadBy(rep.costs, func(c *costs) float64 { return c.perSecond }).Median
		l["schedule_p99_ms"] = bench.SpreadBy(rep.costs, func(c *costs) float64 { return bench.MS(c.p99) }).Median
	}
	l.Judge(rep.unmet(l, all)) // of what was played
	return l
}

// unmet returns why the targets are not met.
func (rep *report) unmet(l bench.Line, all map[string]bench.Line) (why bench.Reasons) {
	not := why.If
	missed := func(list []bench.Target) {
		for _, t := range l.Missed(list) {
			way := "above"
			if t.Least {
				way = "below"
			}
			not(true, "%s is %s %v", t.Name, way, t.Limit)
		}
	}
	if all[rep.settings.Own] != nil {
		not(all[batchesName] == nil, "%s was not played", batchesName)
		missed(targets)
		not(all[crowdName] == nil, "%q was not played", crowdName)
		killed := all[killedName]
		back := killed.Value("back_after_s")
		not(killed == nil, "%q was not played", killedName)
		not(killed != nil && killed["back_after_s"] == nil, "no worker was killed")
		not(back > rep.settings.ttl.Seconds()+targetBack, "slots came back after %.2f s", back)
	}
	for _, c := range rep.contenders {
		wrong, played := all[c.name]["audit"]
		not(c.own && played && wrong != 0, "the audit of %q is not 0", c.name)
	}
	missed(costTargets)
	return why
}
