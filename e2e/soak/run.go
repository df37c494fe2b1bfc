package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/lab"
	"github.com/warmgate/warmgate/e2e/wait"
)

// figures are what a run ends with.
type figures struct {
	Bench    string  `json:"bench"`
	Seed     uint64  `json:"seed"`
	Verdict  string  `json:"verdict"`
	Seconds  float64 `json:"seconds"`
	Requests int     `json:"requests"`
	Failed   int     `json:"failed"`   // without their endpoint's doing
	Injected int     `json:"injected"` // answered by a server that was made to fail
	Left     int     `json:"left"`
	Pushes   int     `json:"pushes"`   // of endpoints and configuration
	Clusters int     `json:"clusters"` // names, most of which came and went
	Failures int     `json:"failures"` // servers made to fail
	Audits   int     `json:"audits"`
	growth
	RSSMiB float64 `json:"rss_mib"` // at the end

	Statistics int            `json:"statistics"` // of the plugin, at the end
	Decisions  map[string]int `json:"decisions"`  // by reason
	Gateway    float64        `json:"gateway_cores"`
	Cores      float64        `json:"cores"` // the gateway's and this program's, which is the servers and clients
	// StoodMS is for how long this program itself, or the machine, stood still at most: what fails then is not the
	// gateway's.
	StoodMS int64 `json:"stood_still_ms"`
}

// mostUnderWay keeps a machine that is too busy for the rate from being flooded.
const mostUnderWay = 1000

// run returns the figures also when there is an error.
func run(ctx context.Context, s *settings) (figures, error) {
	r := &soaker{settings: s, changes: &changer{rand: rand.New(rand.NewPCG(s.Seed, 0)), mix: &mix{}}}
	r.figures = figures{Bench: "soak", Seed: s.Seed, Verdict: "failed"}
	_, err := lab.Run(ctx, "soak", &s.Settings, []lab.Stage{{
		Scenes: []lab.Scene{{Name: "soak", Play: r.periods, Bare: true}},
		Open: func(ctx context.Context, s *lab.Settings) *audit.Site {
			r.changes.site = s.Site(ctx, audit.Options{Edit: r.changes.edit})
			return r.changes.site
		},
	}})
	if err == nil {
		r.figures.Verdict = "passed"
	}
	return r.figures, err
}

// soaker is a run.
type soaker struct {
	*settings
	changes *changer
	start   time.Time
	turned  time.Time // when clusters were last changed
	figures figures

	mu      sync.Mutex
	samples []sample
}

func (r *soaker) periods(a *lab.Act) {
	client := audit.Client(a.Site.Gateway, "", lab.Patience) // seconds do, unless the machine is busy with other things
	defer client.Close()
	traffic := audit.NewTraffic(client, a.Rate, a.Seed, r.changes.mix.request)
	traffic.Meant, traffic.Most = "status_"+strconv.Itoa(injected), mostUnderWay
	r.play(a, traffic) // the first one warms up
	r.start = time.Now()
	ctx, stop := context.WithCancel(a.Ctx)
	measured := make(chan error, 1)
	go func() { measured <- r.measure(ctx, a.Site) }()
	stood := make(chan time.Duration, 1)
	go func() { stood <- stoodStill(ctx) }()
	err := lab.Try(func() { r.measured(a, traffic) })
	stop()
	r.figures.StoodMS = (<-stood).Milliseconds()
	lab.Check(err, <-measured)
}

// stoodStill returns how late a timer of this program was at most.
func stoodStill(ctx context.Context) (most time.Duration) {
	const step = 100 * time.Millisecond
	for last := time.Now(); wait.For(ctx, step) == nil; last = time.Now() {
		most = max(most, time.Since(last)-step)
	}
	return most
}

// measured plays the periods that count.
func (r *soaker) measured(a *lab.Act, traffic *audit.Traffic) {
	gateway, own, f := lab.Must(a.Site.Gateway.CPU()), bench.OwnCPU(), &r.figures
	for time.Since(r.start) < r.length {
		r.play(a, traffic)
		r.report()
	}
	f.Seconds = time.Since(r.start).Seconds()
	f.Gateway = (lab.Must(a.Site.Gateway.CPU()) - gateway).Seconds() / f.Seconds
	f.Cores = f.Gateway + (bench.OwnCPU()-own).Seconds()/f.Seconds
	lab.Each(func() { r.decisions(a) }, func() { lab.Check(f.grows(r.length)) })
}

// play is one period: traffic with changes, then an audit of everything that should be 0.
func (r *soaker) play(a *lab.Act, traffic *audit.Traffic) {
	traffic.Start(a.Ctx)
	err := lab.Try(func() { r.change(a, time.Now().Add(r.period)) })
	traffic.Pause()
	f, t := &r.figures, traffic.Tally()
	f.Requests, f.Injected, f.Left, f.Failed = t.Sent, t.Meant, t.Left, t.Failed()
	a.Result.Requests, a.Result.Left, a.Result.Failed = t.Sent, t.Left, t.Failed()
	f.Clusters, f.Failures = 1+r.changes.made, r.changes.failed
	if f.Failed > 0 {
		err = errors.Join(err, fmt.Errorf("%d requests failed: %v, first: %s", f.Failed, t.Errors, t.First))
	}
	lab.Check(err)
	f.Audits++
	r.atRest(a)
}

// change makes a push each second, other clusters each turn, and makes one server after the other fail for a while.
func (r *soaker) change(a *lab.Act, end time.Time) {
	for time.Now().Before(end) {
		lab.Check(r.changes.push(a.Ctx))
		r.figures.Pushes++
		if time.Since(r.turned) >= r.turn {
			r.turned = time.Now()
			lab.Check(r.changes.turn(a.Ctx))
		}
		lab.Check(r.changes.fail(time.Now()))
		lab.Check(wait.For(a.Ctx, time.Second))
	}
	lab.Check(r.changes.heal())
}

// atRest waits until no party counts anything, at no cluster that there is or was.
func (r *soaker) atRest(a *lab.Act) {
	lab.Must(a.Site.Drained(a.Ctx))
	a.Within(30*time.Second, func() {
		const counts = `^wasmcustom\.warmgate_(inflight|queue_length|owners$)`
		lab.Check(rests(lab.Must(a.Site.Gateway.Stats(a.Ctx, counts)), r.Workers))
	})
}

// rests returns an error unless nothing is counted or waits, and each worker, and the main thread, has one VM that
// counts.
func rests(stats map[string]float64, workers int) error {
	for name, v := range stats {
		if name != "wasmcustom.warmgate_owners" && v != 0 {
			return fmt.Errorf("%s is %v at rest", name, v)
		}
	}
	if n := stats["wasmcustom.warmgate_owners"]; n < 1 || n > float64(workers+1) {
		return fmt.Errorf("%v owners count requests, with %d workers", n, workers)
	}
	return nil
}

// measure takes samples of the memory until the end of the run.
func (r *soaker) measure(ctx context.Context, site *audit.Site) error {
	for {
		used, rss, err := site.Gateway.Used(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		r.mu.Lock()
		r.samples = append(r.samples, sample{time.Since(r.start), float64(used) / mib})
		r.figures.RSSMiB = float64(rss) / mib
		r.mu.Unlock()
	}
}

const mib = 1 << 20

func (r *soaker) report() {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := &r.figures
	f.growth = judge(r.samples)
	fmt.Fprintf(r.Progress, "%4.0f s  %7d requests, %6d left, %5d injected, %d failed, %4d clusters; ",
		time.Since(r.start).Seconds(), f.Requests, f.Left, f.Injected, f.Failed, f.Clusters)
	fmt.Fprintf(r.Progress, "used %s, %+.1f MiB/h [%+.1f, %+.1f], %.0f resident\n",
		thirds(f.Thirds), f.Slope, f.Low, f.High, f.RSSMiB)
}

// decisions counts the requests by the plugin's reasons. None may lack room.
func (r *soaker) decisions(a *lab.Act) {
	const name = "wasmcustom.warmgate_decisions_total"
	stats, f := lab.Must(a.Site.Gateway.Stats(a.Ctx, `^wasmcustom\.warmgate`)), &r.figures
	f.Statistics, f.Decisions = len(stats), map[string]int{}
	for k, v := range stats {
		if _, reason, ok := strings.Cut(k, ";reason="); ok && strings.HasPrefix(k, name) {
			f.Decisions[reason] += int(v)
		}
	}
	n := f.Decisions["store_error"]
	lab.FailIf(n > 0, "the store had no room for %d requests", n)
}
