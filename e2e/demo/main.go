// Command demo shows Warmgate at work, on this machine alone: a real Envoy with two workers in front of eight simulated
// vLLM servers of unequal speed, and heavy-tailed chat traffic. While the gateway runs, its configuration is switched
// from Envoy's round_robin to Envoy's least_request to Warmgate; each gets the same requests at the same times.
//
// With -redis it shows two gateways before the same servers instead: what each sees alone against one view in Redis.
//
// It exits with status 1 if a request failed. With KEEP=1 in the environment it stays up until Ctrl-C.
package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/lab"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

const (
	workers = 2
	span    = 16 * time.Second
)

// speeds of the servers: three generations of hardware. No policy knows them.
var speeds = []float64{2, 2, 1, 1, 1, 1, 0.5, 0.5}

// show is what a demo compares.
type show struct {
	command  string // that it is started with
	gateways int
	load     float64 // of the servers' capacity
	policies []compare.Policy
	title    string // of the table
	lesson   string // what to see in it; "" for nothing
}

var (
	onePolicyAfterAnother = show{
		command: "make demo", gateways: 1, load: 0.75, policies: []compare.Policy{
			compare.RoundRobin,
			compare.LeastRequest, compare.Warmgate,
		},
		title: "one Envoy process, three configurations",
	}
	aloneAndTogether = show{
		command: "make demo-redis", gateways: 2, load: 0.85, policies: []compare.Policy{
			compare.LeastRequest,
			compare.Warmgate, compare.Shared,
		},
		title: "two Envoys before the same servers, three configurations",
		lesson: "The first two count what their own gateway has sent, so that each is blind to half of the " +
			"load. With Redis\n" +
			"every worker of both gateways chooses and counts in one view, in one atomic step.",
	}
)

// server is what the simulated servers have in common: two sequences at once, 180 tokens a second when it is full.
func server() vllmsim.Config {
	c := vllmsim.DefaultConfig()
	c.MaxNumSeqs, c.MaxQueued = 2, -1
	c.Tuning.DecodeStepMS, c.Tuning.DecodeSeqMS = 10, 0.5
	return c
}

func servers() []vllmsim.Config { return compare.Servers(server(), speeds...) }

func (s *show) traffic() []loadgen.Request {
	w := loadgen.Workload{
		Seed: 7, Stream: true,
		Prompt: loadgen.LogNormal{Median: 120, Sigma: 1, Min: 8, Max: 2000},
		Output: loadgen.LogNormal{Median: 30, Sigma: 1, Min: 2, Max: 200},
	}
	return lab.Must(compare.AtLoad(w, servers(), s.load, span))
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	d := &demo{show: onePolicyAfterAnother, screen: newScreen(os.Stdout), keep: os.Getenv("KEEP") == "1"}
	if len(os.Args) == 2 && os.Args[1] == "-redis" {
		d.show = aloneAndTogether
	}
	err := lab.Try(func() { d.run(ctx) })
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// demo is one showing.
type demo struct {
	show    show
	screen  *screen
	keep    bool
	stage   *compare.Stage
	results []compare.Result
	failed  int // requests that failed outside the measured phases
}

// errFailed is the error of a request that failed, which the demo must not hide.
var errFailed = errors.New("requests failed; see the table")

func (d *demo) run(ctx context.Context) {
	began := time.Now()
	d.prepare(ctx)
	reqs, redis := d.show.traffic(), d.redis(ctx)
	d.stage = lab.Must(compare.NewStage(ctx, compare.Options{
		Gateways: d.show.gateways, Workers: workers, Servers: servers(),
		Redis: redis, First: d.show.policies[0],
	}))
	lab.Each(func() {
		d.introduce(reqs)
		d.phases(ctx, reqs)
		report(os.Stdout, &d.show, d.results)
		d.explain(ctx, os.Stdout, reqs)
		fmt.Printf("\nAll of this took %.0f s.\n", time.Since(began).Seconds())
		d.stay(ctx)
		lab.Check(d.verdict())
	}, func() { lab.Check(d.stage.Close()) })
}

// prepare fetches Envoy and builds the plugin. Both are quick when they have been done before.
func (d *demo) prepare(ctx context.Context) {
	d.screen.line("Fetching Envoy (about 30 MB the first time) …")
	d.screen.line("  %s", lab.Must(harness.Envoy(ctx, "")))
	d.screen.line("Building the plugin …")
	d.screen.line("  %s", lab.Must(harness.Wasm(ctx, harness.HostEnvoy)))
	d.screen.line("Starting Envoy with %d workers and %d simulated vLLM servers …", workers, len(speeds))
}

// redis starts a Redis server if the show needs one, and returns its address.
func (d *demo) redis(ctx context.Context) (addr string) {
	if d.show.gateways == 1 {
		return ""
	}
	d.screen.line("Starting Redis for %d gateways (fetched the first time) …", d.show.gateways)
	s := lab.Must(redisserver.Start(ctx, redisserver.Options{}))
	d.screen.line("  %s", s.Addr())
	return s.Addr()
}

func (d *demo) introduce(reqs []loadgen.Request) {
	longest, tokens := 0, 0
	for i := range reqs {
		longest = max(longest, reqs[i].MaxTokens)
		tokens += reqs[i].MaxTokens
	}
	for _, g := range d.stage.Gateways {
		d.screen.line("  gateway %s (pid %d)", g.URL(), g.PID())
	}
	d.screen.line("  servers of speed %v, each runs 2 requests at once and queues the rest", speeds)
	d.screen.line("Traffic: %d streamed chats in %.0f s, %.0f %% of the servers' capacity, answers of %d tokens on "+
		"average, the longest %d.",
		len(reqs), reqs[len(reqs)-1].Due.Seconds(), 100*compare.Load(servers(), reqs), tokens/len(reqs), longest)
	d.screen.line("Every policy gets the same requests at the same times. Envoy is not restarted between them.")
	d.screen.line("")
}

// phases plays the traffic under each policy.
func (d *demo) phases(ctx context.Context, reqs []loadgen.Request) {
	for i, p := range d.show.policies {
		if i > 0 {
			d.change(ctx, d.show.policies[i-1], p)
		}
		bar := d.screen.bar(p.Name, len(reqs))
		r := d.stage.Play(ctx, p, reqs, 0, func(s loadgen.Sample) { bar.add(&s) })
		bar.done()
		lab.Check(ctx.Err())
		d.results = append(d.results, r)
	}
}

// change pushes the policy next in place of before while a trickle of requests continues, to show that no request fails
// for the switch.
func (d *demo) change(ctx context.Context, before, next compare.Policy) {
	const rate, seed = 50, 11
	trickle := audit.NewTraffic(d.stage.Client(), rate, seed, func(r *rand.Rand, id int) loadgen.Request {
		q := loadgen.Request{ID: id, MaxTokens: 1}
		q.Body = lab.Body(loadgen.Text(r, 10), &q)
		return q
	})
	trickle.Start(context.WithoutCancel(ctx)) // requests under way are completed, not cut off
	began := time.Now()
	err := d.stage.Switch(ctx, next)
	took := time.Since(began)
	time.Sleep(200 * time.Millisecond) // the first requests under the new policy belong to the switch too
	trickle.Pause()
	sum := trickle.Tally()
	d.failed += sum.Failed()
	lab.Check(err)
	d.screen.line("→ pushed %s: live after %.1f s; until then %s balanced: %d requests served, %d failed",
		next.Name, took.Seconds(), before.Name, sum.OK, sum.Failed())
}

// stay keeps the gateway up until the user ends it.
func (d *demo) stay(ctx context.Context) {
	url := d.stage.Gateway.URL() + compare.Path
	if !d.keep {
		d.screen.line("\nThe gateway and the servers stop now. `%s KEEP=1` leaves them up to play with.",
			d.show.command)
		return
	}
	d.screen.line(`
The gateway stays up, with Warmgate. Try:

  curl -i %s -H 'content-type: application/json' \
    -d '{"model":"sim","messages":[{"role":"user","content":"Hello"}],"max_tokens":20}'

  curl -s --unix-socket %s/admin.sock http://admin/stats/prometheus | grep '^warmgate_'

Its files are in %s. Ctrl-C stops it.`, url, d.stage.Gateway.Dir(), d.stage.Gateway.Dir())
	<-ctx.Done()
}

// verdict is the error of the whole demo.
func (d *demo) verdict() error {
	failed := d.failed
	for i := range d.results {
		failed += d.results[i].Summary.Failed()
	}
	if failed > 0 {
		return fmt.Errorf("%d %w", failed, errFailed)
	}
	return nil
}
