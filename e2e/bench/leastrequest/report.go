package leastrequest

import (
	"fmt"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
)

// report is the output of the benchmark.
type report struct {
	bench.Runs[compare.Result]
	settings settings
	apart    [][]float64 // under a herd: the most less the least in flight, by policy of it, then by round
}

func besideIdle(r *compare.Result) float64 {
	return bench.Percent(r.Placement.BesideIdle, r.Placement.Requests)
}

func besideFree(r *compare.Result) float64 {
	return bench.Percent(r.Placement.BesideFree, r.Placement.Requests)
}
func queued(r *compare.Result) float64 { return r.Queued }
func p99(r *compare.Result) float64    { return bench.MS(r.Summary.Latency.P99) }

var columns = bench.Columns[compare.Result]{
	bench.Col("p50 ms", "%.0f", func(r *compare.Result) float64 { return bench.MS(r.Summary.Latency.P50) }),
	bench.Col("p90 ms", "%.0f", func(r *compare.Result) float64 { return bench.MS(r.Summary.Latency.P90) }),
	bench.Col("p99 ms", "%.0f", p99),
	bench.Col("queued request·s", "%.1f", queued),
	bench.Col("queued beside an idle server, % of requests", "%.1f", besideIdle),
	bench.Col("… beside a free slot, %", "%.1f", besideFree),
	bench.Col("imbalance", "%.2f", func(r *compare.Result) float64 { return r.Imbalance }),
	bench.Col("errors", "%.0f", func(r *compare.Result) float64 { return float64(r.Summary.Failed()) }),
}

func (rep *report) table() *bench.Table { return rep.Tabulate(columns, "median (min..max)") }

// configuration returns what was compared.
func (rep *report) configuration() []string {
	s := rep.settings
	lines := []string{
		fmt.Sprintf("servers: 8 simulated, no limit on the queue, speeds %v (not known to any policy); %s", s.speeds(),
			compare.Describe(server())),
		fmt.Sprintf("traffic: open loop, Poisson; prompt %+v, answer %+v tokens", workload(0).Prompt,
			workload(0).Output),
	}
	for _, p := range s.policies() {
		lines = append(lines, p.Name+": "+p.Describe())
	}
	if len(rep.apart) > 0 {
		lines = append(lines, rep.herdLine())
	}
	return lines
}

// targets of one gateway are kept in every round, those of several in the median.
var targets = []bench.Target{{Name: "p99_vs_least_request", Limit: 0.5}}

// line returns the last line of the output. Ratios are Warmgate's p99, with several gateways that of the shared view,
// over the native policy's, round by round. docs/benchmarks/leastrequest.md and gateways.md describe the figures.
func (rep *report) line() bench.Line {
	s, own := rep.settings, compare.Warmgate.Name
	if s.gateways > 1 {
		own = compare.Shared.Name
	}
	l := bench.Line{
		"bench": "leastrequest", "rounds": s.Rounds, "gateways": max(1, s.gateways), "workers": s.Workers,
		"load": s.load, "even": s.even,
	}
	against := func(name string, other compare.Policy) *bench.Spread {
		ratio := rep.Ratio("", own, other.Name, p99)
		l.Figure(name, ratio)
		return ratio
	}
	leastRequest := against("p99_vs_least_request", compare.LeastRequest)
	roundRobin := against("p99_vs_round_robin", compare.RoundRobin)
	l.Spread("queued_request_seconds", rep.Spread("", own, queued))
	l.Spread("queued_beside_idle_percent", rep.Spread("", own, besideIdle))
	l.Spread("queued_beside_free_percent", rep.Spread("", own, besideFree))
	l.Spread("queueing_while_idle_seconds", rep.Spread("", own, func(r *compare.Result) float64 {
		return r.Fleet.QueueingWhileIdle
	}))
	if roundRobin != nil {
		l["target_met"] = roundRobin.Max <= 1.0/3 && leastRequest.Max < 1
		return l
	}
	against("p99_vs_alone", compare.Warmgate)
	met := l.Meets(targets)
	if n := len(rep.apart); n > 0 {
		shared, patient := bench.SpreadOf(rep.apart[n-2]), bench.SpreadOf(rep.apart[n-1])
		l["herd_apart"], l["herd_apart_patient"] = shared, patient // patient has time enough to reserve in Redis
		met = met && patient.Max <= 1
	}
	l["target_met"] = met
	return l
}
