package push

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/bench/scripted"
	"github.com/warmgate/warmgate/e2e/loadgen"
)

// result is what one contender did with one workload.
type result struct {
	scripted.Figures
	uneven      float64 // requests of the busiest server over the mean of all
	queued      float64 // time that requests waited in servers for room, summed, s
	besideFree  float64 // time in which a server had requests waiting while another could have run one, s
	preemptions float64
	cpu         float64 // share of the machine's CPU time that was used, by everything
}

// windowOf begins with the first tree that is not there to warm up: caches have filled by then, and what is learned of
// the servers is known. It ends with the beginning of the last tree: from then on there are fewer users every moment.
func windowOf(begins []time.Duration, warm int) scripted.Window {
	return scripted.Window{From: begins[min(warm, len(begins)-1)], To: slices.Max(begins)}
}

// resultOf reduces the samples of a play on a stage, and takes what its servers have counted in the whole run.
func resultOf(samples []loadgen.Sample, measured scripted.Window, stage *compare.Stage) result {
	r := result{Figures: measured.Figures(samples), besideFree: stage.Fleet.State().QueueingWhileFree}
	r.uneven = r.Uneven(len(stage.Servers))
	for _, s := range stage.Servers {
		st := s.State()
		r.queued += st.QueuedSeconds
		r.preemptions += float64(st.Preemptions)
	}
	return r
}

func tokens(r *result) float64  { return r.Rate }
func cached(r *result) float64  { return r.Cached }
func ttftP90(r *result) float64 { return bench.MS(r.Summary.TTFT.P90) }
func ttftP99(r *result) float64 { return bench.MS(r.Summary.TTFT.P99) }

var columns = bench.Columns[result]{
	bench.Col("tokens/s", "%.0f", tokens),
	bench.Col("TTFT p50 ms", "%.0f", func(r *result) float64 { return bench.MS(r.Summary.TTFT.P50) }),
	bench.Col("p90", "%.0f", ttftP90),
	bench.Col("p99", "%.0f", ttftP99),
	bench.Col("cached share", "%.3f", cached),
	bench.Col("queued in servers, request·s", "%.1f", func(r *result) float64 { return r.queued }),
	bench.Col("… beside a server with room, s", "%.1f", func(r *result) float64 { return r.besideFree }),
	bench.Col("preemptions", "%.0f", func(r *result) float64 { return r.preemptions }),
	bench.Col("max/mean per server", "%.2f", func(r *result) float64 { return r.uneven }),
	bench.Col("errors", "%.0f", func(r *result) float64 { return float64(r.Failed) }),
	bench.Col("CPU of the machine, %", "%.0f", func(r *result) float64 { return 100 * r.cpu }),
}
