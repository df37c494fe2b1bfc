package overload

import (
	"fmt"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
)

// report is the output of the benchmark.
type report struct {
	bench.Runs[result] // by load
	settings           settings
	capacity           float64 // requests a second
	contenders         []contender
	found              bench.Line // by the scenes
}

// best returns the best goodput of a contender over the loads, by round.
func (rep *report) best(contenderName string) []float64 {
	var out []float64
	for _, load := range rep.settings.loads {
		for round, r := range rep.Of(at(load), contenderName) {
			if round == len(out) {
				out = append(out, 0)
			}
			out[round] = max(out[round], r.goodput)
		}
	}
	return out
}

// ofBest returns the goodput at a load over the best of all loads, round by round; nil if it was not played.
func (rep *report) ofBest(contenderName string, load float64) *bench.Spread {
	runs := rep.Of(at(load), contenderName)
	if len(runs) == 0 {
		return nil
	}
	s := bench.Ratios(bench.Values(runs, goodput), rep.best(contenderName))
	return &s
}

func goodput(r *result) float64 { return r.goodput }

func (rep *report) table() *bench.Table {
	t := columns.Table("contender, load: median (min..max)")
	t.Head = append(t.Head, "goodput, of its best")
	for _, c := range rep.contenders {
		for _, load := range rep.settings.loads {
			if runs := rep.Of(at(load), c.name); len(runs) > 0 {
				row := columns.Row(runs, c.name+", "+at(load))
				t.Add(append(row, rep.ofBest(c.name, load).Format("%.2f"))...)
			}
		}
	}
	return t
}

// configuration returns what was compared.
func (rep *report) configuration() []string {
	lines := []string{
		"clients count as internal, so that the ids of their requests are kept",
		fmt.Sprintf("servers: %d simulated, no limit on the queue: %s: together a capacity of %.1f requests/s", servers,
			compare.Describe(fleet()[0]), rep.capacity),
		fmt.Sprintf("traffic: open loop, Poisson; prompt %+v, answer %+v tokens", workload(0).Prompt,
			workload(0).Output),
		"classes: " + describeClasses() + "; the deadline counts from the client's first attempt",
		fmt.Sprintf("clients: at most %d retries after 429, 5xx and broken connections, when Retry-After says (and up "+
			"to 10 %% later), else after %v and twice that (± 25 %%), none that would begin after the deadline; they "+
			"leave %v after it", maxRetries, backoff, grace),
	}
	for _, c := range rep.contenders {
		lines = append(lines, c.name+": "+c.policy.Describe())
	}
	if late := rep.latest(); late > mostLate {
		lines = append(lines, fmt.Sprintf("not valid: requests were sent up to %.0f ms late at p99, this machine was "+
			"too busy for these figures", bench.MS(late)))
	}
	return lines
}

// mostLate is the p99 of lateness above which a run says more of the machine than of the contender.
const mostLate = 50 * time.Millisecond

// latest returns the most of the p99 of how late the generator was, over all runs.
func (rep *report) latest() time.Duration {
	var most time.Duration
	rep.Each(func(_, _ string, runs []result) {
		for i := range runs {
			most = max(most, runs[i].late)
		}
	})
	return most
}
