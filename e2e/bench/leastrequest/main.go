// Package leastrequest compares Warmgate's global_least_request with Envoy's native round_robin and least_request on
// the same heavy-tailed traffic: latency, and queueing in the servers. All three run in one gateway process that is
// switched by configuration; in every round they get the same requests at the same times, in rotating order.
//
// With -gateways above 1 the requests arrive at several gateways in turn, and Warmgate counts them in one Redis.
package leastrequest

import (
	"context"
	"flag"
	"os"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/e2e/vllmsim"
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
