package push

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/simload"
	"github.com/warmgate/warmgate/internal/simulate"
	"github.com/warmgate/warmgate/plugin/config"
)

// simulatedContenders are those of the benchmark that a simulation has, by the names of rows.
func simulatedContenders(t *testing.T) []simulate.Contender {
	t.Helper()
	plugin := func(name, more string, metrics bool) simulate.Contender {
		raw := `{"lb_policy":"prefix_cache","lb_config":{` + more + `"prefix":{"credit":2}}}`
		c, err := simulate.ParseContender(name, []byte(raw), config.Higress)
		if err != nil {
			t.Fatal(err)
		}
		c.NoMetrics = !metrics
		return c
	}
	list := []simulate.Contender{
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
	return list
}

// TestSimulatedRanking holds that a simulation ranks the contenders as the real gateway does: nine in ten of the pairs
// that differ there beyond the noise of the rounds, by tokens/s, p90 of TTFT and cached share.
func TestSimulatedRanking(t *testing.T) {
	const rate, p90, cached = "tokens/s", "p90", "cached share"
	real, err := simload.Tabulated("../../../docs/benchmarks/push.md", "trees2, blind", rate, p90, cached)
	if err != nil {
		t.Fatal(err)
	}
	var ranking simload.Ranking
	for _, w := range []workload{trees2(), trees24()} {
		got := map[string]map[string]float64{}
		for _, c := range simulatedContenders(t) {
			var rates, times, shares []float64
			for seed := range uint64(3) {
				play := simload.Play{
					Scripts: w.scripts(seed + 1), Users: w.clients, Apart: 20 * time.Millisecond,
					Warm: func(script, _ int) bool { return script < w.warm },
				}
				fleet := simulate.Alike(servers, simulate.Engine{Config: w.server.Config, Times: w.server.Tuning.Times})
				r, err := simulate.Run(play.New(), fleet, c, seed+1, nil)
				if err != nil {
					t.Fatal(err)
				}
				if r.Served != r.Requests {
					t.Errorf("%s, %s: %d of %d served: %v", w.name, c.Name, r.Served, r.Requests, r.Refused)
				}
				// all have the same work
				rates = append(rates, float64(r.Output)/r.Took)
				times, shares = append(times, r.TTFT.P90*1e3), append(shares, r.Cached)
			}
			row := w.name + ", " + c.Name
			got[row] = map[string]float64{rate: median(rates), p90: median(times), cached: median(shares)}
			t.Logf("%s: %.0f, real %.0f; %.0f ms, real %.0f; %.3f, real %.3f", row,
				got[row][rate], real[row][rate].Median, got[row][p90], real[row][p90].Median,
				got[row][cached], real[row][cached].Median)
		}
		ranking.Add(real, got)
	}
	if t.Logf("%+v", ranking); ranking.Pairs < 60 || ranking.Share() < 0.9 {
		t.Errorf("%d of %d pairs are ranked as by the real gateway", ranking.Same, ranking.Pairs)
	}
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}
