package regions

import (
	"slices"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/bench/scripted"
	"github.com/warmgate/warmgate/e2e/loadgen"
)

// result is what one contender did in one cell.
type result struct {
	scripted.Figures                           // of all users
	by               [regions]scripted.Figures // of those of each region
	uneven           float64                   // requests of the busiest server over the mean of those that are used
	queued           float64                   // time that requests waited in servers for room, summed, s
	besideFree       float64                   // time in which a server had requests waiting while another had room, s
	preemptions      float64
	forwarded        counts  // requests of the whole run that were sent to another region's gateway
	away             float64 // the share of the measured requests of which that is true
	unanswered       unanswered
	cpu              bench.Used
}

// resultOf reduces the samples of a run, and takes what the servers have counted in all of it.
func resultOf(samples [regions][]loadgen.Sample, measured scripted.Window, st *stage) result {
	r := result{
		Figures: measured.Figures(slices.Concat(samples[:]...)), besideFree: st.fleet.State().QueueingWhileFree,
	}
	for i := range samples {
		r.by[i] = measured.Figures(samples[i])
	}
	delete(r.Summary.Endpoints, "") // of those that were cut off before they had one
	r.uneven = r.Uneven(len(r.Summary.Endpoints))
	r.away = away(samples, measured)
	for _, s := range st.servers {
		state := s.State()
		r.queued += state.QueuedSeconds
		r.preemptions += float64(state.Preemptions)
	}
	return r
}

// away returns the share of the requests of a window that were forwarded.
func away(samples [regions][]loadgen.Sample, measured scripted.Window) float64 {
	n, all := 0, 0
	for i := range samples {
		for k := range samples[i] {
			s := &samples[i][k]
			if s.Due < measured.From || s.Due >= measured.To {
				continue
			}
			all++
			if s.Header.Get(compare.RegionHeader) != "" {
				n++
			}
		}
	}
	return float64(n) / float64(max(1, all))
}

func tokens(r *result) float64  { return r.Rate }
func cached(r *result) float64  { return r.Cached }
func ttftP50(r *result) float64 { return bench.MS(r.Summary.TTFT.P50) }
func ttftP90(r *result) float64 { return bench.MS(r.Summary.TTFT.P90) }
func machine(r *result) float64 { return r.cpu.Machine }

var columns = bench.Columns[result]{
	bench.Col("tokens/s", "%.0f", tokens),
	bench.Col("of users in "+names[0], "%.0f", func(r *result) float64 { return r.by[0].Rate }),
	bench.Col("TTFT p50 ms", "%.0f", ttftP50),
	bench.Col("p90", "%.0f", ttftP90),
	bench.Col("p99", "%.0f", func(r *result) float64 { return bench.MS(r.Summary.TTFT.P99) }),
	bench.Col("p50 in "+names[0], "%.0f", func(r *result) float64 { return bench.MS(r.by[0].Summary.TTFT.P50) }),
	bench.Col("cached share", "%.3f", cached),
	bench.Col("forwarded, %", "%.1f", func(r *result) float64 { return 100 * r.away }),
	bench.Col("queued in servers, request·s", "%.1f", func(r *result) float64 { return r.queued }),
	bench.Col("… beside a server with room, s", "%.1f", func(r *result) float64 { return r.besideFree }),
	bench.Col("preemptions", "%.0f", func(r *result) float64 { return r.preemptions }),
	bench.Col("max/mean per server", "%.2f", func(r *result) float64 { return r.uneven }),
	bench.Col("errors", "%.0f", func(r *result) float64 { return float64(r.Failed) }),
	bench.Col("cut without a token", "%.0f", func(r *result) float64 { return float64(r.unanswered.all) }),
	bench.Col("… after 20 s", "%.0f", func(r *result) float64 { return float64(r.unanswered.long) }),
	bench.Col("cores of Envoy", "%.2f", func(r *result) float64 { return r.cpu.Gateways }),
	bench.Col("of users and servers", "%.2f", func(r *result) float64 { return r.cpu.Own }),
	bench.Col("CPU of the machine, %", "%.0f", func(r *result) float64 { return 100 * r.cpu.Machine }),
}
