package metrics

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/simload"
	"github.com/warmgate/warmgate/e2e/traffic"
	"github.com/warmgate/warmgate/internal/simulate"
)

// SimulatedRanking compares how a simulation ranks the policies, by TTFT, with the figures of real gateways in the page
// of this benchmark. Adapters are not simulated. show is told of each.
func SimulatedRanking(show func(format string, figures ...any)) (ranking simload.Ranking, err error) {
	const mean, p50, p99 = "TTFT mean ms", "p50", "p99"
	real, err := simload.Tabulated("docs/benchmarks/metrics.md", "endpoint_metrics", mean, p50, p99)
	if err != nil {
		return ranking, err
	}
	f, err := newFleet()
	if err != nil {
		return ranking, err
	}
	var fleet []simulate.Engine
	for _, s := range f.servers {
		fleet = append(fleet, simulate.Engine{Config: s.Config, Times: s.Tuning.Times})
	}
	var loads [5][]loadgen.Request
	for i := range loads {
		if loads[i], err = compare.AtLoad(workload(11+uint64(i)), f.servers, 0.8, 28*time.Second); err != nil {
			return ranking, err
		}
	}
	got := map[string]map[string]float64{}
	for _, policy := range []string{"least_request", "global_least_request", "endpoint_metrics"} {
		var all [3][]float64
		for seed, w := range loads {
			r, err := simulated(w, fleet, policy, uint64(seed))
			if err != nil {
				return ranking, fmt.Errorf("%s: %w", policy, err)
			}
			for i, v := range []float64{r.Mean, r.P50, r.P99} {
				all[i] = append(all[i], v*1e3)
			}
		}
		got[policy] = map[string]float64{}
		for i, column := range []string{mean, p50, p99} {
			slices.Sort(all[i])
			got[policy][column] = all[i][2]
			show("%s, %s: %.0f, real %.0f", policy, column, all[i][2], real[policy][column].Median)
		}
	}
	ranking.Add(real, got)
	return ranking, nil
}

// simulated plays a workload with a policy. The first eight seconds warm up.
func simulated(w []loadgen.Request, fleet []simulate.Engine, policy string, seed uint64) (t simulate.Times, err error) {
	rng := rand.New(rand.NewPCG(seed, 9))
	play := simload.Play{Warm: func(script, _ int) bool { return w[script].Due < 8*time.Second }}
	for i := range w {
		play.Scripts = append(play.Scripts, traffic.Script{
			Session: strconv.Itoa(i), Due: w[i].Due, Turns: []traffic.Turn{{
				Parent: -1, Answer: w[i].MaxTokens,
				Add: []loadgen.Message{traffic.User(loadgen.Text(rng, w[i].Prompt))},
			}},
		})
	}
	c, err := simulate.OfPolicy(policy)
	if err != nil {
		return t, err
	}
	c.NoMetrics = policy != "endpoint_metrics"
	r, err := simulate.Run(play.New(), fleet, c, seed, nil)
	if err != nil {
		return t, err
	}
	return r.TTFT, nil
}
