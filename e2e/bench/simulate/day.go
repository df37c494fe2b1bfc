package simulate

import (
	"context"
	"fmt"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/internal/enginesim"
	"github.com/warmgate/warmgate/internal/simulate"
	"github.com/warmgate/warmgate/plugin/config"
)

// The day of five regions: what SkyLB (arXiv 2505.24095) shows in figure 3 for the loads of countries, each of which
// has servers for its own peak, or all of them have for the peak of all.
const (
	dayLength    = 10 * time.Minute
	dayUsers     = 3000
	dayNight     = 0.15
	dayMost      = 10 // servers of a region
	dayApart     = 100 * time.Millisecond
	dayWithin    = time.Second
	dayContender = `{"lb_policy":"prefix_cache","lb_config":{"push":"pending","queue":{"max_wait":"10s"}}}`
)

// dayZones are the hours by which the regions are ahead of UTC.
var dayZones = []struct {
	name string
	zone float64
}{{"us-west", -8}, {"us-east", -5}, {"eu", 1}, {"in", 5.5}, {"jp", 9}}

// day finds the fewest servers by which nine in ten first tokens of each region come within a second and nothing is
// refused: of regions that each have their own, of those that forward to each other, and of one gateway for all
// servers, to which it is no distance: that is what could be had.
func (s settings) day(ctx context.Context, t *bench.Table, line bench.Line) error {
	l, load := dayOfRegions()
	local, err := simulate.ParseContender("prefix_cache", []byte(dayContender), config.Higress)
	if err != nil {
		return err
	}
	forwarding, _ := l.Forwarding(local)
	ideal := local
	ideal.Name = "prefix_cache without distances"
	var saved, couldBe []float64
	for seed := s.seed; seed < s.seed+uint64(s.seeds); seed++ {
		var servers [3]float64
		for i, of := range []struct {
			layout *simulate.Layout
			simulate.Contender
		}{
			{l, local},
			{l, forwarding},
			{simulate.Alone(simulate.Alike(dayMost*len(dayZones), l.Pools[0].Engines[0])), ideal},
		} {
			r, suffices, err := of.layout.Fewest(&of.Contender, func(l *simulate.Layout) (*simulate.Result, error) {
				return l.Run(load.New(seed), of.Contender, seed, func(int) bool { return ctx.Err() == nil })
			}, func(r *simulate.Result) bool { return r.Served == r.Requests && r.TTFT.P90 <= dayWithin.Seconds() })
			if err == nil && !suffices {
				err = fmt.Errorf("%d servers do not suffice", r.Endpoints)
			}
			if err != nil {
				return fmt.Errorf("%s, seed %d: %w", of.Name, seed, err)
			}
			servers[i] = float64(r.Endpoints)
			t.Rows = append(t.Rows, dayRow(of.Name, seed, r))
			fmt.Println(t.Last(1))
		}
		saved, couldBe = append(saved, 1-servers[1]/servers[0]), append(couldBe, 1-servers[2]/servers[0])
	}
	line.Figure("servers_saved", bench.SpreadIfAny(saved))
	line.Figure("servers_saved_ideal", bench.SpreadIfAny(couldBe))
	return nil
}

// dayOfRegions returns the most servers that there may be, and the load.
func dayOfRegions() (*simulate.Layout, *simulate.Sessions) {
	l := &simulate.Layout{}
	load := &simulate.Sessions{
		Users: dayUsers, Requests: 1, Prompts: 4, System: 3000, Turns: 6, Question: 200, Answer: 200,
		Think: 8 * time.Second, Day: simulate.Day{Length: dayLength, Night: dayNight},
	}
	fleet := simulate.Alike(dayMost, simulate.Engine{
		Config: enginesim.Config{MaxNumSeqs: 64, MaxQueued: -1, NumBlocks: 32000}, Times: enginesim.DefaultTimes(),
	})
	for i, of := range dayZones {
		l.Pools = append(l.Pools, simulate.Pool{Name: of.name, Engines: fleet})
		l.RTT = append(l.RTT, make([]time.Duration, len(dayZones)))
		for k := range dayZones {
			if k != i {
				l.RTT[i][k] = dayApart
			}
		}
		load.Places = append(load.Places, simulate.Place{Share: 1, Zone: of.zone})
	}
	return l, load
}

func dayRow(name string, seed uint64, r *simulate.Result) []string {
	return []string{
		name, fmt.Sprint(seed), fmt.Sprint(r.Endpoints), fmt.Sprintf("%.0f", r.TTFT.P50*1e3),
		fmt.Sprintf("%.0f", r.TTFT.P90*1e3), fmt.Sprintf("%.1f", bench.Percent(r.Forwarded, r.Requests)),
		fmt.Sprintf("%.1f", 100*r.Cached), fmt.Sprint(r.Requests),
	}
}

// dayTable is what day adds rows to.
func dayTable() *bench.Table {
	return &bench.Table{Head: []string{
		"servers for a day", "seed", "servers", "TTFT ms p50", "p90", "forwarded %", "cached %", "requests",
	}}
}
