package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/wait"
)

type settings struct {
	length, period, turn time.Duration
	rate                 float64
	version              string // of Envoy
	servers, workers     int
	seed                 uint64
	progress             io.Writer
}

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
func run(ctx context.Context, s settings) (figures, error) {
	f := figures{Bench: "soak", Seed: s.seed, Verdict: "failed"}
	c := &changer{rand: rand.New(rand.NewPCG(s.seed, 0)), mix: &mix{}}
	site, err := audit.Open(ctx, audit.Options{
		Servers: s.servers, Workers: s.workers, Version: s.version,
		Edit: c.edit,
	})
	if err != nil {
		return f, err
	}
	c.site = site
	const most = 1 << 14
	watch := site.Watch(ctx, most)
	r := &soaker{settings: s, site: site, changes: c, figures: f}
	err = r.periods(ctx)
	_, seen := watch.Stop()
	if err = errors.Join(err, seen); err != nil {
		err = fmt.Errorf("%w\nthe log of Envoy ends:\n%s", err, audit.Tail(site.Gateway.Logs()))
	} else {
		r.figures.Verdict = "passed"
	}
	return r.figures, errors.Join(err, site.Close())
}

// soaker is a run.
type soaker struct {
	settings
	site    *audit.Site
	changes *changer
	start   time.Time
	turned  time.Time // when clusters were last changed
	figures figures

	mu      sync.Mutex
	samples []sample
}

func (r *soaker) periods(ctx context.Context) error {
	const patience = 5 * time.Minute // seconds do, unless the machine is busy with other things
	client := r.site.Client(0, "", patience)
	defer client.Close()
	traffic := audit.NewTraffic(client, r.rate, r.seed, r.changes.mix.request)
	traffic.Meant, traffic.Most = "status_"+strconv.Itoa(injected), mostUnderWay
	if err := r.play(ctx, traffic); err != nil { // the first one warms up
		return err
	}
	r.start = time.Now()
	ctx, stop := context.WithCancel(ctx)
	measured := make(chan error, 1)
	go func() { measured <- r.measure(ctx) }()
	stood := make(chan time.Duration, 1)
	go func() { stood <- stoodStill(ctx) }()
	err := r.measured(ctx, traffic)
	stop()
	r.figures.StoodMS = (<-stood).Milliseconds()
	return errors.Join(err, <-measured)
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
func (r *soaker) measured(ctx context.Context, traffic *audit.Traffic) error {
	gateway, all, err := r.cpu()
	if err != nil {
		return err
	}
	f := &r.figures
	for time.Since(r.start) < r.length {
		if err := r.play(ctx, traffic); err != nil {
			return err
		}
		r.report()
	}
	f.Seconds = time.Since(r.start).Seconds()
	gatewayNow, allNow, err := r.cpu()
	f.Gateway, f.Cores = (gatewayNow-gateway).Seconds()/f.Seconds, (allNow-all).Seconds()/f.Seconds
	return errors.Join(err, r.decisions(ctx), f.grows(r.length))
}

// play is one period: traffic with changes, then an audit of everything that should be 0.
func (r *soaker) play(ctx context.Context, traffic *audit.Traffic) error {
	traffic.Start(ctx)
	err := r.change(ctx, time.Now().Add(r.period))
	traffic.Pause()
	f, t := &r.figures, traffic.Tally()
	f.Requests, f.Injected, f.Left, f.Failed = t.Sent, t.Meant, t.Left, t.Failed()
	f.Clusters, f.Failures = 1+r.changes.made, r.changes.failed
	if f.Failed > 0 {
		err = errors.Join(err, fmt.Errorf("%d requests failed: %v, first: %s", f.Failed, t.Errors, t.First))
	}
	if err != nil {
		return err
	}
	f.Audits++
	return r.atRest(ctx)
}

// change makes a push each second, other clusters each turn, and makes one server after the other fail for a while.
func (r *soaker) change(ctx context.Context, end time.Time) error {
	for time.Now().Before(end) {
		if err := r.changes.push(ctx); err != nil {
			return err
		}
		r.figures.Pushes++
		if time.Since(r.turned) >= r.turn {
			r.turned = time.Now()
			if err := r.changes.turn(ctx); err != nil {
				return err
			}
		}
		if err := r.changes.fail(time.Now()); err != nil {
			return err
		}
		if err := wait.For(ctx, time.Second); err != nil {
			return err
		}
	}
	return r.changes.heal()
}

// atRest waits until no party counts anything, at no cluster that there is or was.
func (r *soaker) atRest(ctx context.Context) error {
	if _, err := r.site.Drained(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return wait.Until(ctx, 100*time.Millisecond, func() error {
		stats, err := r.site.Gateway.Stats(ctx, `^wasmcustom\.warmgate_(inflight|queue_length|owners$)`)
		if err == nil {
			err = rests(stats, r.workers)
		}
		return err
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
func (r *soaker) measure(ctx context.Context) error {
	for {
		used, rss, err := r.site.Gateway.Used(ctx)
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
	fmt.Fprintf(r.progress, "%4.0f s  %7d requests, %6d left, %5d injected, %d failed, %4d clusters; ",
		time.Since(r.start).Seconds(), f.Requests, f.Left, f.Injected, f.Failed, f.Clusters)
	fmt.Fprintf(r.progress, "used %s, %+.1f MiB/h [%+.1f, %+.1f], %.0f resident\n",
		thirds(f.Thirds), f.Slope, f.Low, f.High, f.RSSMiB)
}

// cpu returns the CPU time of the gateway, and of it and this program.
func (r *soaker) cpu() (gateway, all time.Duration, err error) {
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		return 0, 0, err
	}
	gateway, err = r.site.Gateway.CPU()
	return gateway, gateway + time.Duration(own.Utime.Nano()+own.Stime.Nano()), err
}

// decisions counts the requests by the plugin's reasons. None may lack room.
func (r *soaker) decisions(ctx context.Context) error {
	const name = "wasmcustom.warmgate_decisions_total"
	stats, err := r.site.Gateway.Stats(ctx, `^wasmcustom\.warmgate`)
	if err != nil {
		return err
	}
	f := &r.figures
	f.Statistics, f.Decisions = len(stats), map[string]int{}
	for k, v := range stats {
		if _, reason, ok := strings.Cut(k, ";reason="); ok && strings.HasPrefix(k, name) {
			f.Decisions[reason] += int(v)
		}
	}
	if n := f.Decisions["store_error"]; n > 0 {
		return fmt.Errorf("the store had no room for %d requests", n)
	}
	return nil
}
