package regions

import (
	"fmt"
	"slices"
	"time"

	"github.com/warmgate/warmgate/e2e/simload"
	"github.com/warmgate/warmgate/internal/simulate"
	"github.com/warmgate/warmgate/plugin/config"
)

// Columns of the table that simulations are compared by.
const (
	p50Head, p90Head, cachedHead = "TTFT p50 ms", "p90", "cached share"
)

// SimulatedRanking compares how a simulation ranks regions that forward to each other, regions that do not and one
// gateway without distances, with the figures of real gateways in the page of this benchmark. show is told of each.
func SimulatedRanking(show func(format string, figures ...any)) (ranking simload.Ranking, err error) {
	real, err := simload.Tabulated("docs/benchmarks/regions.md", "conversations@skewed, local", p50Head, p90Head,
		cachedHead)
	if err != nil {
		return ranking, err
	}
	all, err := cells(workloads(), "", "", 1)
	if err != nil {
		return ranking, err
	}
	for i := range all {
		got := map[string]map[string]float64{}
		for _, c := range contenders(apart) {
			row := all[i].key() + ", " + c.name
			if real[row] == nil || c.router != nil || c.central && !c.near {
				continue
			}
			if got[row], err = c.simulated(&all[i]); err != nil {
				return ranking, fmt.Errorf("%s: %w", row, err)
			}
			show("%s: p50 %.0f ms, real %.0f; p90 %.0f, real %.0f; cached %.3f, real %.3f", row, got[row][p50Head],
				real[row][p50Head].Median, got[row][p90Head], real[row][p90Head].Median, got[row][cachedHead],
				real[row][cachedHead].Median)
		}
		ranking.Add(real, got)
	}
	return ranking, nil
}

// simulated plays a cell for three seeds and returns the medians.
func (c *contender) simulated(at *cell) (map[string]float64, error) {
	of, err := simulate.ParseContender(c.name, []byte(c.policy(0).Plugin), config.Envoy)
	if err != nil {
		return nil, err
	}
	e := simulate.Engine{Config: engine().Config, Times: engine().Tuning.Times}
	layout := simulate.Alone(simulate.Alike(c.servers.all(), e))
	if !c.central {
		layout = &simulate.Layout{}
		for i, name := range names {
			rtts := slices.Repeat([]time.Duration{apart}, regions)
			rtts[i] = 0
			layout.RTT = append(layout.RTT, rtts)
			layout.Pools = append(layout.Pools, simulate.Pool{Name: name, Engines: simulate.Alike(c.servers[i], e)})
		}
	}
	all := map[string][]float64{}
	for seed := range uint64(3) {
		r, err := layout.Run(newWindow(at, seed+1), of, seed+1, nil)
		if err != nil {
			return nil, err
		}
		for head, v := range map[string]float64{
			p50Head: r.TTFT.P50 * 1e3, p90Head: r.TTFT.P90 * 1e3, cachedHead: r.Cached,
		} {
			all[head] = append(all[head], v)
		}
	}
	medians := map[string]float64{}
	for head, values := range all {
		slices.Sort(values)
		medians[head] = values[1]
	}
	return medians, nil
}

// window is the load of all regions for as long as a run is: what is sent at first only warms up.
type window struct{ of [regions]simulate.Load }

const (
	windowWarm = 8 * time.Second
	windowEnd  = windowWarm + 17*time.Second
)

func newWindow(c *cell, seed uint64) *window {
	w := &window{}
	scripts := c.scripts(seed)
	for i, users := range c.users() {
		play := simload.Play{Scripts: scripts[i], Users: users, Apart: 20 * time.Millisecond}
		w.of[i] = play.New()
	}
	return w
}

// Begin implements simulate.Load. A request has the number of its region's load, times regions, and that region.
func (w *window) Begin(send func(at time.Duration, number int)) {
	for i := range w.of {
		w.of[i].Begin(func(at time.Duration, number int) { send(at, number*regions+i) })
	}
}

// Send implements simulate.Load.
func (w *window) Send(now time.Duration, number int) *simulate.Request {
	if now >= windowEnd {
		return nil
	}
	r := w.of[number%regions].Send(now, number/regions)
	r.Region, r.Warm = number%regions, now < windowWarm
	return r
}

// Ended implements simulate.Load.
func (w *window) Ended(now time.Duration, number int, r *simulate.Request, served bool) {
	w.of[number%regions].Ended(now, number/regions, r, served)
}
