package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/wait"
)

type settings struct {
	pushes, modules, perRound int
	burst                     int // requests that arrive at once before a push that finds a queue
	rate                      float64
	streams                   int
	version                   string // of Envoy
	servers, workers          int
	pause                     time.Duration
	seed                      uint64
	progress                  io.Writer
}

// figures are what a run ends with. A run without error has failed 0 and cut 0.
type figures struct {
	Bench     string  `json:"bench"`
	Seed      uint64  `json:"seed"`
	Pushes    int     `json:"pushes"`
	Refused   int     `json:"refused"` // bad configurations, all of them
	Modules   int     `json:"module_swaps"`
	Endpoints int     `json:"endpoint_pushes"`
	Native    int     `json:"native_policy_pushes"`
	Requests  int     `json:"requests"`
	Rate      float64 `json:"rate_rps"`
	Failed    int     `json:"failed"`
	Waited    int     `json:"waited"` // requests that had to wait in a queue, during a push
	Streams   int     `json:"streams"`
	Cut       int     `json:"streams_cut"`
	Audits    int     `json:"audits"`
	AgreeMS   int64   `json:"agree_max_ms"` // longest wait for all parties to agree
	DrainMS   int64   `json:"drain_max_ms"` // longest wait until nothing was counted any more
	Peak      int64   `json:"peak_inflight"`
	PushMS    int64   `json:"push_p50_ms"` // until new requests on every worker met it
	SlowestMS int64   `json:"push_max_ms"`
}

// reloader is a run.
type reloader struct {
	settings
	site    *audit.Site
	traffic *audit.Traffic
	crowd   *crowd
	pusher  *pusher
	took    []time.Duration
	figures figures
}

// run returns the figures also when there is an error.
func run(ctx context.Context, s settings) (figures, error) {
	f := figures{Bench: "reload", Seed: s.seed}
	dir, err := os.MkdirTemp("", "warmgate-reload-")
	if err != nil {
		return f, err
	}
	defer os.RemoveAll(dir)
	site, err := audit.Open(ctx, audit.Options{Servers: s.servers, Workers: s.workers, Version: s.version})
	if err != nil {
		return f, err
	}
	r := &reloader{settings: s, site: site, figures: f}
	if r.pusher, err = newPusher(ctx, site, s, dir); err == nil {
		err = r.rounds(ctx)
	}
	if err != nil {
		err = fmt.Errorf("%w\nEnvoy's log ends:\n%s", err, audit.Tail(site.Gateway.Logs()))
	}
	return r.figures, errors.Join(err, site.Close())
}

func (r *reloader) rounds(ctx context.Context) error {
	const most = 1 << 14 // requests that could ever be in flight together here
	watch := r.site.Watch(ctx, most)
	const patience = 5 * time.Minute // some wait until nothing else is under way
	client := r.site.Client(0, "", patience)
	defer client.Close()
	r.traffic = audit.NewTraffic(client, r.rate, r.seed, audit.Short)
	r.crowd = newCrowd(r.site, patience)
	plan := plan(rand.New(rand.NewPCG(r.seed, 2)), r.pushes, r.modules)
	var err error
	for len(plan) > 0 && err == nil {
		n := min(r.perRound, len(plan))
		err = r.round(ctx, plan[:n])
		plan = plan[n:]
	}
	r.traffic.Pause()
	err = errors.Join(err, r.crowd.end())
	peak, seen := watch.Stop()
	r.report(peak)
	t := r.traffic.Tally()
	if t.Failed() > 0 {
		err = errors.Join(err, fmt.Errorf("%d of %d requests failed: %v, first: %s", t.Failed(), t.Sent,
			t.Errors, t.First))
	}
	return errors.Join(err, seen)
}

func (r *reloader) report(peak int64) {
	t, f := r.traffic.Tally(), &r.figures
	f.Requests, f.Rate, f.Failed, f.Peak = t.Sent+r.crowd.sent, t.Rate(), t.Failed()+r.crowd.failed, peak
	f.Waited = r.crowd.waited
	f.Refused, f.Modules = r.pusher.refused, r.pusher.count[module]
	f.Endpoints, f.Native = r.pusher.count[endpoints], r.pusher.count[native]
	f.Pushes = len(r.took)
	q := loadgen.QuantilesOf(r.took)
	f.PushMS, f.SlowestMS = q.P50.Milliseconds(), q.Max.Milliseconds()
}

// round opens streams, pushes under traffic, and audits in the end while the streams are still open.
func (r *reloader) round(ctx context.Context, plan []kind) error {
	// A minute: far longer than a round takes. The streams end when the run ends them.
	const tokens = 600
	streams, err := r.site.OpenStreams(ctx, r.streams, tokens)
	if err != nil {
		return err
	}
	defer streams.Release()
	r.figures.Streams += r.streams
	r.traffic.Start(ctx)
	for _, k := range plan {
		if err := r.push(ctx, k, streams); err != nil {
			return err
		}
	}
	r.traffic.Pause()
	r.crowd.done.Wait()
	return r.audit(ctx, streams)
}

// push makes one change, while requests wait if they may, and checks that the open streams are still counted some time
// later.
func (r *reloader) push(ctx context.Context, k kind, streams *audit.Streams) error {
	if r.pusher.now.queue {
		r.crowd.arrive(ctx, r.burst)
	}
	start := time.Now()
	name, err := r.pusher.push(ctx, k)
	if err != nil {
		return err
	}
	took := time.Since(start)
	r.took = append(r.took, took)
	if err := wait.For(ctx, r.pauseAfter(k)); err != nil {
		return err
	}
	if err := r.stillCounted(ctx, streams); err != nil {
		return fmt.Errorf("after push %d, %q: %w", len(r.took), name, err)
	}
	fmt.Fprintf(r.progress, "push %3d  %-20s in force after %5d ms, %d streams counted\n",
		len(r.took), name, took.Milliseconds(), streams.Counted())
	return nil
}

// pauseAfter returns how long traffic runs with what was pushed.
func (r *reloader) pauseAfter(k kind) time.Duration {
	if k == module {
		// The streams that are open stay with the VMs of the old code. Were these not alive any more, their leases
		// would be returned after the TTL of 5 s.
		return 7 * time.Second
	}
	return r.pause
}

// stillCounted waits until the gauges, which are up to a second old, show at least the open streams.
func (r *reloader) stillCounted(ctx context.Context, streams *audit.Streams) error {
	if n := streams.Failed(""); n > 0 {
		return fmt.Errorf("%d streams were cut", n)
	}
	return r.site.AtLeast(ctx, streams.Open())
}

// audit compares all counts while only the streams are open, then again when these have ended as they should.
func (r *reloader) audit(ctx context.Context, streams *audit.Streams) error {
	agreed, complete, cut, err := r.site.EndStreams(ctx, streams)
	if err != nil {
		return err
	}
	r.figures.Cut += cut
	if complete != r.streams {
		return fmt.Errorf("%d of %d streams were complete, %d were cut", complete, r.streams, cut)
	}
	drained, err := r.site.Drained(ctx)
	if err != nil {
		return err
	}
	r.figures.Audits++
	r.figures.AgreeMS = max(r.figures.AgreeMS, agreed.Milliseconds())
	r.figures.DrainMS = max(r.figures.DrainMS, drained.Milliseconds())
	fmt.Fprintf(r.progress, "audit     %d streams: all counts equal after %d ms, 0 after their end and %d ms\n",
		complete, agreed.Milliseconds(), drained.Milliseconds())
	return nil
}
