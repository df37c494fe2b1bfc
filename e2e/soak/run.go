package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/loadgen"
)

type settings struct {
	length, period   time.Duration
	rate             float64
	version          string // of Envoy
	servers, workers int
	seed             uint64
	progress         io.Writer
}

// figures are what a run ends with.
type figures struct {
	Bench    string  `json:"bench"`
	Seed     uint64  `json:"seed"`
	Seconds  float64 `json:"seconds"`
	Requests int     `json:"requests"`
	Failed   int     `json:"failed"`
	Left     int     `json:"left"`
	Changes  int     `json:"changes"` // of endpoints and configuration
	Audits   int     `json:"audits"`
	FirstMiB float64 `json:"used_first_mib"` // median of the first third of the periods
	LastMiB  float64 `json:"used_last_mib"`  // median of the last third
	Slope    float64 `json:"used_mib_per_100k_requests"`
	RSSMiB   float64 `json:"rss_mib"` // at the end

	Statistics int `json:"statistics"` // of the plugin, at the end
}

// maxGrowth is how much more memory may be in use in the last third of a run than in its first. Go's heap in each VM,
// that of the main thread included, grows by some MiB until its first collection, which comes late where little is
// allocated.
const maxGrowth = 12 << 20

// run returns the figures also when there is an error.
func run(ctx context.Context, s settings) (figures, error) {
	f := figures{Bench: "soak", Seed: s.seed}
	site, err := audit.Open(ctx, audit.Options{Servers: s.servers, Workers: s.workers, Version: s.version})
	if err != nil {
		return f, err
	}
	const most = 1 << 14
	watch := site.Watch(ctx, most)
	r := &soaker{settings: s, site: site, rand: rand.New(rand.NewPCG(s.seed, 0)), figures: f}
	err = r.periods(ctx)
	_, seen := watch.Stop()
	if err = errors.Join(err, seen); err != nil {
		err = fmt.Errorf("%w\nthe log of Envoy ends:\n%s", err, audit.Tail(site.Gateway.Logs()))
	}
	return r.figures, errors.Join(err, site.Close())
}

// soaker is a run.
type soaker struct {
	settings
	site    *audit.Site
	rand    *rand.Rand
	used    []float64 // bytes, one per period
	figures figures
}

func (r *soaker) periods(ctx context.Context) error {
	client := r.site.Client(time.Minute)
	defer client.Close()
	traffic := audit.NewTraffic(client, r.rate, r.seed, request)
	start := time.Now()
	n := max(3, int(r.length/r.period))
	for i := range n + 1 { // the first one warms up
		if err := r.play(ctx, traffic); err != nil {
			return err
		}
		used, rss, err := r.site.Gateway.Used(ctx)
		if err != nil {
			return err
		}
		t := traffic.Tally()
		fmt.Fprintf(r.progress, "%4.0f s  %7d requests, %6d left, %d failed, %5.1f MiB used, %5.1f resident\n",
			time.Since(start).Seconds(), t.Sent, t.Left, t.Failed(), float64(used)/mib, float64(rss)/mib)
		r.figures.Requests, r.figures.Failed, r.figures.Left = t.Sent, t.Failed(), t.Left
		r.figures.RSSMiB = float64(rss) / mib
		if i > 0 {
			r.used = append(r.used, float64(used))
		}
		if t.Failed() > 0 {
			return fmt.Errorf("%d requests failed: %v, first: %s", t.Failed(), t.Errors, t.First)
		}
	}
	r.figures.Seconds = time.Since(start).Seconds()
	return r.judge(ctx)
}

// play is one period: traffic with a change each second, then an audit of everything that should be 0.
func (r *soaker) play(ctx context.Context, traffic *audit.Traffic) error {
	traffic.Start(ctx)
	for end := time.Now().Add(r.period); time.Now().Before(end); {
		if err := r.change(ctx); err != nil {
			return err
		}
		r.figures.Changes++
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
	traffic.Pause()
	if _, err := r.site.Drained(ctx); err != nil {
		return err
	}
	r.figures.Audits++
	return nil
}

const mib = 1 << 20

// change pushes a part of the endpoints, or another configuration.
func (r *soaker) change(ctx context.Context) error {
	if r.rand.IntN(3) == 0 {
		configs := []string{
			audit.Config(), audit.Config(`"unit":"tokens"`), audit.Config(`"shadow":true`),
			audit.Config(`"unit":"tokens"`, `"body_timeout":"30ms"`), audit.Config(`"max_inflight":1000`),
		}
		return r.site.Gateway.PushPlugin(ctx, configs[r.rand.IntN(len(configs))])
	}
	all := r.site.Endpoints()
	var list []harness.Endpoint
	for _, i := range r.rand.Perm(len(all))[:1+r.rand.IntN(len(all))] {
		list = append(list, all[i])
	}
	return r.site.Gateway.PushEndpoints(ctx, list)
}

// request is a short one; the clients of some leave before its answer.
func request(rnd *rand.Rand, id int) loadgen.Request {
	q := audit.Short(rnd, id)
	if rnd.IntN(10) == 0 {
		q.Leave = loadgen.Leave{At: loadgen.BeforeFirstByte, After: time.Duration(rnd.IntN(50)) * time.Millisecond}
	}
	return q
}

// judge compares the memory of the last third of the periods with the first.
func (r *soaker) judge(ctx context.Context) error {
	stats, err := r.site.Gateway.Stats(ctx, `^wasmcustom\.warmgate`)
	if err != nil {
		return err
	}
	first, last := thirds(r.used)
	f := &r.figures
	f.Statistics, f.FirstMiB, f.LastMiB = len(stats), first/mib, last/mib
	f.Slope = (last - first) / mib / (float64(f.Requests) * 2 / 3) * 1e5 // the thirds lie two thirds of the run apart
	if last-first > maxGrowth {
		return fmt.Errorf("the memory of Envoy grew from %.1f to %.1f MiB", f.FirstMiB, f.LastMiB)
	}
	return nil
}

// thirds returns the medians of the first and of the last third of xs.
func thirds(xs []float64) (first, last float64) {
	n := max(1, len(xs)/3)
	return median(xs[:n]), median(xs[len(xs)-n:])
}

func median(xs []float64) float64 {
	s := slices.Sorted(slices.Values(xs))
	return s[len(s)/2]
}
