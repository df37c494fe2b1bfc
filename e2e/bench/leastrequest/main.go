// Package leastrequest compares Warmgate's global_least_request with Envoy's native round_robin and least_request on
// the same heavy-tailed traffic: latency, and queueing in the servers. All three run in one gateway process that is
// switched by configuration; in every round they get the same requests at the same times, in rotating order.
//
// With -gateways above 1 the requests arrive at several gateways in turn, and Warmgate counts them in one Redis.
package leastrequest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

type settings struct {
	bench.Settings
	span     time.Duration
	load     float64
	gateways int
	herd     int
	even     bool
	extra    bool
}

func parse() (settings, error) {
	var s settings
	s.Flags(5)
	s.WorkersFlag(4)
	flag.DurationVar(&s.span, "span", 60*time.Second, "time in which the requests of one run arrive")
	flag.Float64Var(&s.load, "load", 0.75, "share of the servers' capacity that the traffic uses")
	flag.IntVar(&s.gateways, "gateways", 1, "gateways before the same servers; more than one also share their "+
		"counts in Redis")
	flag.IntVar(&s.herd, "herd", 0, "with several gateways: also let so many clients arrive at the same "+
		"moment, once a round")
	flag.BoolVar(&s.even, "even", false, "servers of equal speed")
	flag.BoolVar(&s.extra, "extra", false, "also compare Envoy's least_request with a full scan, and Warmgate "+
		"with unit: tokens")
	flag.Parse()
	return s, nil
}

// Benchmark is to be played.
var Benchmark = bench.New("leastrequest", parse, run)

// speeds of the eight servers. The uneven ones are a fleet of three generations of hardware. No policy knows them.
func (s settings) speeds() []float64 {
	if s.even {
		return []float64{1, 1, 1, 1, 1, 1, 1, 1}
	}
	return []float64{2, 2, 1, 1, 1, 1, 0.5, 0.5}
}

func (s settings) servers() []vllmsim.Config { return compare.Servers(server(), s.speeds()...) }

// server is what the simulated servers have in common: two sequences at once, 400 tokens a second when it is full.
func server() vllmsim.Config {
	c := vllmsim.DefaultConfig()
	c.MaxNumSeqs, c.MaxQueued = 2, -1
	c.Tuning.DecodeStepMS, c.Tuning.DecodeSeqMS = 4, 0.5
	return c
}

// workload is chat traffic with heavy-tailed prompts and answers: one in twenty is five times longer than the median.
func workload(seed uint64) loadgen.Workload {
	return loadgen.Workload{
		Seed:   seed,
		Prompt: loadgen.LogNormal{Median: 120, Sigma: 1, Min: 8, Max: 2000},
		Output: loadgen.LogNormal{Median: 30, Sigma: 1, Min: 2, Max: 200},
	}
}

// policies are compared in this order. Several gateways are also compared with the best policy that each can have on
// its own, a full scan; round_robin, which several gateways do not change, is left out.
func (s settings) policies() []compare.Policy {
	if s.gateways > 1 {
		return []compare.Policy{compare.LeastRequest, compare.FullScan, compare.Warmgate, compare.Shared}
	}
	all := []compare.Policy{compare.RoundRobin, compare.LeastRequest, compare.Warmgate}
	if s.extra {
		all = append(all, compare.FullScan, compare.WarmgateTokens)
	}
	return all
}

func run(ctx context.Context, s settings) error {
	redis, err := s.startRedis(ctx)
	if err != nil {
		return err
	}
	rep := &report{settings: s}
	if err := compare.On(ctx, compare.Options{
		Gateways: s.gateways, Redis: redis, Workers: s.Workers, Servers: s.servers(), First: compare.RoundRobin,
	}, func(stage *compare.Stage) error { return rep.play(ctx, stage) }); err != nil {
		return err
	}
	return bench.Publish(os.Stdout, s.Markdown, rep.configuration(), rep.table(), rep.line())
}

// startRedis starts the server in which several gateways count, and returns its address; "" for one gateway.
func (s settings) startRedis(ctx context.Context) (string, error) {
	if s.gateways < 2 {
		return "", nil
	}
	server, err := redisserver.Start(ctx, redisserver.Options{})
	if err != nil {
		return "", err
	}
	return server.Addr(), nil
}

// play plays every policy once per round, and then the herds.
func (rep *report) play(ctx context.Context, stage *compare.Stage) error {
	s, policies := rep.settings, rep.settings.policies()
	if err := bench.Play(&rep.Runs, columns, "", s.Rounds, bench.Names(policies, nameOf),
		func(round int) ([]loadgen.Request, error) {
			return compare.AtLoad(workload(s.Seed+uint64(round)), s.servers(), s.load, s.span)
		}, func(reqs []loadgen.Request, i int) (compare.Result, error) {
			return stage.SwitchAndPlay(ctx, policies[i], reqs, 0)
		}); err != nil {
		return err
	}
	var err error
	rep.apart, err = herds(ctx, stage, s)
	return err
}

func nameOf(p compare.Policy) string { return p.Name }

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

// herdPolicies are compared under a herd: all of the traffic's, and ours with enough time to reserve on this machine.
func (s settings) herdPolicies() []compare.Policy {
	if s.herd == 0 || s.gateways < 2 {
		return nil
	}
	return append(s.policies(), compare.Patient)
}

// herds plays a herd in every round under each policy, and returns the differences between the servers' requests, by
// policy and round.
func herds(ctx context.Context, stage *compare.Stage, s settings) ([][]float64, error) {
	policies := s.herdPolicies()
	return bench.Rounds(s.Rounds, len(policies), nil, func(round, i int) (float64, error) {
		if err := stage.Switch(ctx, policies[i]); err != nil {
			return 0, err
		}
		n, err := stage.Herd(ctx, s.herd)
		if err != nil {
			return 0, fmt.Errorf("a herd under %s: %w", policies[i].Name, err)
		}
		fmt.Printf("round %d  %-16s a herd of %d leaves the servers %d requests apart\n", round+1,
			policies[i].Name, s.herd, n)
		return float64(n), nil
	})
}

// herdLine returns the result in one line.
func (rep *report) herdLine() string {
	var parts []string
	for i, p := range rep.settings.herdPolicies() {
		parts = append(parts, p.Name+" "+bench.SpreadOf(rep.apart[i]).Format("%.0f"))
	}
	return fmt.Sprintf("herd: %d requests at the same moment through all gateways; most less least in flight at a "+
		"server, median (min..max): %s",
		rep.settings.herd, strings.Join(parts, ", "))
}
