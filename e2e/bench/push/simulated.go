package push

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/warmgate/warmgate/e2e/simload"
	"github.com/warmgate/warmgate/internal/simulate"
	"github.com/warmgate/warmgate/plugin/config"
)

// simulatedContenders are those of the benchmark that a simulation has, by the names of rows.
func simulatedContenders() (list []simulate.Contender, err error) {
	plugin := func(name, more string, metrics bool) simulate.Contender {
		raw := `{"lb_policy":"prefix_cache","lb_config":{` + more + `"prefix":{"credit":2}}}`
		c, e := simulate.ParseContender(name, []byte(raw), config.Higress)
		err = errors.Join(err, e)
		c.NoMetrics = !metrics
		return c
	}
	list = []simulate.Contender{
		{Name: "round_robin", Native: "round_robin"},
		{Name: "least_request", Native: "least_request"},
		plugin(blindName, "", false),
		plugin(ownName, `"push":"pending",`+queue(""), true),
		plugin(ownName+" skip 100", `"push":"pending",`+queue(`,"skip":100`), true),
		plugin(ownName+" no metrics", `"push":"pending",`+queue(""), false),
		plugin(ownName+" ahead 1", `"push":"pending","push_ahead":1,`+queue(""), true),
	}
	for _, most := range []int{12, 16, 24} {
		list = append(list, plugin(fmt.Sprintf("%s %d", outstandingName, most),
			fmt.Sprintf(`"push":"outstanding","max_inflight":%d,%s`, most, queue("")), false))
	}
	return list, err
}

// SimulatedRanking compares how a simulation ranks the contenders, by tokens/s, p90 of TTFT and cached share, with the
// figures of real gateways in the page of this benchmark. show is told of each.
func SimulatedRanking(show func(format string, figures ...any)) (ranking simload.Ranking, err error) {
	const rate, p90, cached = "tokens/s", "p90", "cached share"
	real, err := simload.Tabulated("docs/benchmarks/push.md", "trees2, blind", rate, p90, cached)
	if err != nil {
		return ranking, err
	}
	contenders, err := simulatedContenders()
	if err != nil {
		return ranking, err
	}
	for _, w := range []workload{trees2(), trees24()} {
		got := map[string]map[string]float64{}
		for _, c := range contenders {
			row := w.name + ", " + c.Name
			figures, err := simulatedFigures(&w, c)
			if err != nil {
				return ranking, fmt.Errorf("%s: %w", row, err)
			}
			got[row] = map[string]float64{rate: figures[0], p90: figures[1], cached: figures[2]}
			show("%s: %.0f, real %.0f; %.0f ms, real %.0f; %.3f, real %.3f", row,
				got[row][rate], real[row][rate].Median, got[row][p90], real[row][p90].Median,
				got[row][cached], real[row][cached].Median)
		}
		ranking.Add(real, got)
	}
	return ranking, nil
}

// simulatedFigures plays a workload with a contender for three seeds and returns the medians: tokens/s, p90 of TTFT in
// ms, and the cached share.
func simulatedFigures(w *workload, c simulate.Contender) (medians [3]float64, err error) {
	var all [3][]float64
	for seed := range uint64(3) {
		play := simload.Play{
			Scripts: w.scripts(seed + 1), Users: w.clients, Apart: 20 * time.Millisecond,
			Warm: func(script, _ int) bool { return script < w.warm },
		}
		fleet := simulate.Alike(servers, simulate.Engine{Config: w.server.Config, Times: w.server.Tuning.Times})
		r, err := simulate.Run(play.New(), fleet, c, seed+1, nil)
		if err != nil {
			return medians, err
		}
		if r.Served != r.Requests {
			return medians, fmt.Errorf("%d of %d served: %v", r.Served, r.Requests, r.Refused)
		}
		// all have the same work
		for i, v := range []float64{float64(r.Output) / r.Took, r.TTFT.P90 * 1e3, r.Cached} {
			all[i] = append(all[i], v)
		}
	}
	for i := range all {
		slices.Sort(all[i])
		medians[i] = all[i][1]
	}
	return medians, nil
}
