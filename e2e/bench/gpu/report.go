package gpu

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
)

// configuration returns what was compared.
func (rep *report) configuration() []string {
	lines := []string{rep.fleet.about}
	for _, w := range rep.works {
		lines = append(lines, w.name+": "+w.about)
	}
	for _, p := range rep.policies {
		lines = append(lines, p.Name+": "+p.Describe())
	}
	return append(lines, rep.Notes...)
}

// replayed returns the table of what was replayed.
func (rep *report) replayed() *bench.Table {
	t := &bench.Table{Head: []string{"real → simulated, medians"}}
	for _, q := range quantities {
		t.Head = append(t.Head, q.head)
	}
	for i := range rep.compared {
		c := &rep.compared[i]
		cells := []string{c.work + ", " + c.policy}
		for _, q := range quantities {
			real, sim := q.spreads(c)
			cells = append(cells, fmt.Sprintf(q.verb+" → "+q.verb+" (%+.0f %%)", real.Median, sim.Median,
				100*off(real.Median, sim.Median)))
		}
		t.Add(cells...)
	}
	return t
}

// off returns by which part of the real value the simulated one differs.
func off(real, simulated float64) float64 {
	if real == 0 {
		return 0
	}
	return simulated/real - 1
}

// line returns the figures as JSON.
func (rep *report) line() bench.Line {
	line := bench.Line{"bench": "gpu", "engines": rep.fleet.about, "rounds": rep.settings.Rounds}
	loads := map[string]map[string]bench.Line{}
	rep.Each(func(work, policy string, runs []result) {
		if loads[work] == nil {
			loads[work] = map[string]bench.Line{}
		}
		figures := bench.Line{}
		for _, q := range quantities {
			figures.Figure(q.name, rep.Spread(work, policy, q.real))
		}
		loads[work][policy] = figures
		own := compare.PrefixCache.Name
		figures.Spread("ttft_of_prefix_cache_over", rep.Ratio(work, own, policy, ttft))
	})
	line["loads"] = loads
	worst := map[string]float64{}
	for i := range rep.compared {
		for _, q := range quantities {
			real, sim := q.spreads(&rep.compared[i])
			worst[q.name] = max(worst[q.name], math.Abs(off(real.Median, sim.Median)))
		}
	}
	if len(worst) > 0 {
		line["simulated_off_max"] = worst
	}
	return line
}

// publish prints all, and keeps it beside the requests.
func (rep *report) publish(w io.Writer) error {
	kept, err := os.Create(filepath.Join(rep.folder, "report.txt"))
	if err != nil {
		return err
	}
	var further []*bench.Table
	if len(rep.compared) > 0 {
		further = append(further, rep.replayed())
	}
	table, both, line := rep.Tabulate(columns, "median (min..max)"), io.MultiWriter(w, kept), rep.line()
	err = bench.Publish(both, rep.settings.Markdown, rep.configuration(), table, line, further...)
	if err = errors.Join(err, kept.Close()); err != nil {
		return err
	}
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(rep.folder, "result.json"), text, 0o644)
}
