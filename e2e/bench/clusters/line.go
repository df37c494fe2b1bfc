package clusters

import (
	"maps"
	"slices"

	"github.com/warmgate/warmgate/e2e/bench"
)

// figures returns those of a contender, medians of the rounds.
func (rep *report) figures(c *contender) bench.Line {
	rs := rep.Of("", c.name)
	slow, fails := backOf(rs, recovery), backOf(rs, back)
	l := bench.Line{
		"never_recovered": slow.never, "never_left": slow.stayed,
		"never_back_after_failures": fails.never, "never_left_while_failing": fails.stayed,
	}
	l.Number("recovery_s", slow.median()) // of the rounds in which the slow cluster was left
	l.Number("recovery_after_failures_s", fails.median())
	l.Number("p99_ms", rep.Median("", c.name, p99))
	l.Number("share_while_slow_percent", rep.Median("", c.name, slowed))
	l.Number("failed_percent", rep.Median("", c.name, failed))
	for name, over := range map[string]string{
		"p99_vs_weighted": weighted, "p99_vs_per_vm": c.mode + publishedSuffix,
	} {
		if ratio := rep.Ratio("", c.name, over, p99); ratio != nil {
			l[name] = ratio.Median
		}
	}
	return l
}

// line returns the last line of the output, with the figures of the contender that is named as own, and of all.
// docs/benchmarks/clusters.md describes them.
func (rep *report) line() bench.Line {
	s, all := rep.settings, map[string]bench.Line{}
	l := bench.Line{
		"bench": "clusters", "own": s.Own, "rounds": s.Rounds, "contenders": all,
		// Elsewhere than in the cluster that fails.
		"errors": rep.Count(func(r *result) int { return r.errors }),
	}
	for i := range rep.contenders {
		if c := &rep.contenders[i]; len(rep.Of("", c.name)) > 0 {
			all[c.name] = rep.figures(c)
		}
	}
	maps.Copy(l, all[s.Own])
	l.Judge(rep.unmet(l, all))
	return l
}

// soon is within how many seconds a cluster that has recovered has to be used again.
const soon = 10

// unmet returns why the targets are not met.
func (rep *report) unmet(l bench.Line, all map[string]bench.Line) (why bench.Reasons) {
	not := why.If
	s := rep.settings
	if all[s.Own] == nil {
		return bench.Reasons{s.Own + " was not played"}
	}
	not(s.rate != load, "another load than that of the targets")
	not(l["errors"] != 0, "%d requests failed elsewhere than in the cluster that fails", l["errors"])
	i := slices.IndexFunc(rep.contenders, func(c contender) bool { return c.name == s.Own })
	not(l["p99_vs_weighted"] == nil, "%s was not played", weighted)
	not(l["p99_vs_per_vm"] == nil, "%s was not played", rep.contenders[i].mode+publishedSuffix)
	not(l.Value("p99_vs_weighted") >= 1, "p99 is not below that of %s", weighted)
	// Requests that fail at once are not in p99: whoever has more of them has less of the rest.
	ours, most := l.Value("failed_percent"), all[weighted].Value("failed_percent")
	not(ours > most, "%.2f %% failed, of %s %.2f %%", ours, weighted, most)
	not(l["never_left"] != 0, "the slow cluster was not left in %d of %d rounds", l["never_left"], s.Rounds)
	not(l["never_recovered"] != 0, "it was not back in %d of %d rounds", l["never_recovered"], s.Rounds)
	not(l.Value("recovery_s") > soon, "it was back after %.1f s", l.Value("recovery_s"))
	return why
}
