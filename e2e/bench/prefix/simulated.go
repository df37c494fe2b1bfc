package prefix

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/simload"
	"github.com/warmgate/warmgate/e2e/traffic"
	"github.com/warmgate/warmgate/internal/mooncake"
	"github.com/warmgate/warmgate/internal/simulate"
)

// Simulation is a workload in simulated time.
type Simulation struct {
	Name, About string
	Fleet       []simulate.Engine
	Loads       func(seed uint64) func() simulate.Load // makes the load of a seed, as often as it is wanted
}

// Simulations returns the workloads at a share of the servers' capacity. Those of a trace are left out without one.
func Simulations(trace []mooncake.Request, load float64) (all []Simulation) {
	const requests = 2400
	for _, w := range append(workloads(), replays(trace, 0, requests, time.Second)...) {
		if w.write == nil {
			continue
		}
		w := w
		at := sync.OnceValue(func() workload { return w.at(load, capacityOf(&w, 1)) })
		all = append(all, Simulation{
			Name: w.name, About: fmt.Sprintf("%s; %d servers of %s", w.about, w.servers, compare.Describe(w.server)),
			Fleet: w.fleet(),
			Loads: func(seed uint64) func() simulate.Load {
				w := at()
				return w.simulation(seed).New
			},
		})
	}
	return all
}

// fleet returns the servers as the simulation has them.
func (w *workload) fleet() []simulate.Engine {
	return simulate.Alike(w.servers, simulate.Engine{Config: w.server.Config, Times: w.server.Tuning.Times})
}

// simulation returns the traffic of a seed as the simulation plays it.
func (w *workload) simulation(seed uint64) *simload.Play {
	return &simload.Play{
		Scripts: w.scripts(seed), Users: w.users, InTurns: w.inTurns, Plain: w.plain,
		Apart: 20 * time.Millisecond, Warm: func(_, turn int) bool { return turn < w.warm },
	}
}

// simulated plays a workload with a policy for three seeds and returns the medians.
func simulated(w *workload, policy string) (cached, ttft float64, err error) {
	var all [2][]float64
	for seed := range uint64(3) {
		c, err := simulate.OfPolicy(policy)
		if err != nil {
			return 0, 0, err
		}
		c.NoMetrics = true
		r, err := simulate.Run(w.simulation(seed+1).New(), w.fleet(), c, seed+1, nil)
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
