package prefix

import (
	"fmt"
	"slices"
	"time"

	"github.com/warmgate/warmgate/e2e/simload"
	"github.com/warmgate/warmgate/e2e/traffic"
	"github.com/warmgate/warmgate/internal/mooncake"
	"github.com/warmgate/warmgate/internal/simulate"
)

// simulated plays a workload with a policy for three seeds and returns the medians.
func simulated(w *workload, policy string) (cached, ttft float64, err error) {
	var all [2][]float64
	for seed := range uint64(3) {
		play := simload.Play{
			Scripts: w.scripts(seed + 1), Users: w.users, InTurns: w.inTurns, Plain: w.plain,
			Apart: 20 * time.Millisecond, Warm: func(_, turn int) bool { return turn < w.warm },
		}
		c, err := simulate.OfPolicy(policy)
		if err != nil {
			return 0, 0, err
		}
		c.NoMetrics = true
		fleet := simulate.Alike(w.servers, simulate.Engine{Config: w.server.Config, Times: w.server.Tuning.Times})
		r, err := simulate.Run(play.New(), fleet, c, seed+1, nil)
		if err != nil {
			return 0, 0, err
		}
		all[0], all[1] = append(all[0], r.Cached), append(all[1], r.TTFT.Mean*1e3)
	}
	for i := range all {
		slices.Sort(all[i])
	}
	return all[0][1], all[1][1], nil
}

// SimulatedRanking compares how a simulation ranks the policies, by cached share and by mean TTFT, with the figures of
// real gateways in the page of this benchmark. The trace in a file is played unless it is "". show is told of each.
func SimulatedRanking(file string, show func(format string, figures ...any)) (ranking simload.Ranking, err error) {
	const cached, ttft = "cached share", "TTFT mean ms"
	real, err := simload.Tabulated("docs/benchmarks/prefix.md", "trees24@0.8, prefix_cache", cached, ttft)
	if err != nil {
		return ranking, err
	}
	all := workloads()
	if file != "" {
		trace, err := mooncake.Read(file)
		if err != nil {
			return ranking, err
		}
		all = append(all, replay(traceName, trace, 0, 2400, traffic.TraceScale))
	}
	for _, w := range all {
		w = w.at(0.8, capacityOf(&w, 1))
		got := map[string]map[string]float64{}
		for _, policy := range []string{
			"round_robin", "least_request", "ring_hash", "global_least_request", "prefix_cache",
		} {
			row := w.kind + "@0.8, " + policy
			if real[row] == nil {
				continue // it was not played
			}
			share, mean, err := simulated(&w, policy)
			if err != nil {
				return ranking, fmt.Errorf("%s: %w", row, err)
			}
			got[row] = map[string]float64{cached: share, ttft: mean}
			show("%s: cached %.3f, real %.3f; TTFT %.1f ms, real %.1f", row, share, real[row][cached].Median, mean,
				real[row][ttft].Median)
		}
		ranking.Add(real, got)
	}
	return ranking, nil
}
