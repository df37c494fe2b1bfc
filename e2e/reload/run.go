package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/lab"
	"github.com/warmgate/warmgate/e2e/loadgen"
)

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
	*settings
	pusher *pusher
	took   []time.Duration
	steady audit.Tally // of the requests at the rate
	bursts int         // requests beside these
	cut    int         // streams
}

// run returns the figures also when there is an error.
func run(ctx context.Context, s *settings) (figures, error) {
	r := &reloader{settings: s, pusher: &pusher{}}
	dir, err := os.MkdirTemp("", "warmgate-reload-")
	if err != nil {
		return figures{}, err
	}
	defer os.RemoveAll(dir)
	played, err := lab.Run(ctx, "reload", &s.Settings, []lab.Stage{r.stage(dir)})
	return r.report(&played), err
}

// stage returns a gateway with a scene for each round of pushes.
func (r *reloader) stage(dir string) lab.Stage {
	st := lab.Stage{Open: func(ctx context.Context, s *lab.Settings) *audit.Site {
		shipped := lab.Must(harness.Wasm(ctx, harness.HostEnvoy))
		copied := lab.Must(variant(shipped, dir))
		site := s.Site(ctx, audit.Options{})
		r.pusher = newPusher(site, r.settings, [2]string{shipped, copied})
		return site
	}}
	for rest := plan(rand.New(rand.NewPCG(r.Seed, 2)), r.pushes, r.modules); len(rest) > 0; {
		round := rest[:min(r.perRound, len(rest))]
		name := fmt.Sprintf("pushes from %d on", 1+r.pushes-len(rest))
		st.Scenes = append(st.Scenes, lab.Scene{Name: name, Play: func(a *lab.Act) { r.round(a, round) }})
		rest = rest[len(round):]
	}
	return st
}

// round pushes under traffic, while the same streams are open.
func (r *reloader) round(a *lab.Act, plan []kind) {
	client := audit.Client(a.Site.Gateway, "", lab.Patience) // some wait until nothing else is under way
	defer client.Close()
	seed := a.Seed + uint64(len(r.took))
	steady := audit.NewTraffic(client, a.Rate, seed, audit.Short)
	crowd := audit.NewTraffic(client, 0, seed, audit.Short)
	steady.Start(a.Ctx)
	lab.Each(func() {
		for _, k := range plan {
			r.push(a, k, crowd)
		}
	}, func() {
		steady.Pause()
		crowd.Pause()
		r.cut += a.Streams.Failed("")
		r.steady.Add(steady.Tally())
		r.bursts += crowd.Tally().Sent
		a.Count(steady.Tally(), nil)
	}, func() { a.Count(crowd.Tally(), nil) })
}

// push makes one change, while requests wait if they may, and checks that the open streams are still counted some time
// later.
func (r *reloader) push(a *lab.Act, k kind, crowd *audit.Traffic) {
	if r.pusher.now.queue {
		crowd.Burst(a.Ctx, r.burst)
	}
	start := time.Now()
	name := r.pusher.push(a.Ctx, k)
	took := time.Since(start)
	r.took = append(r.took, took)
	pause := r.pause
	if k == module {
		// The streams that are open stay with the VMs of the old code. Were these not alive any more, their leases
		// would be returned after the TTL of 5 s.
		pause = 7 * time.Second
	}
	a.Sleep(pause)
	lab.About(fmt.Sprintf("after push %d, %q", len(r.took), name), func() {
		n := a.Streams.Failed("")
		lab.FailIf(n > 0, "%d streams were cut", n)
		// The gauges, which are up to a second old, must show at least the open streams.
		lab.Check(a.Site.AtLeast(a.Ctx, a.Streams.Open()))
	})
	fmt.Fprintf(r.Progress, "push %3d  %-20s in force after %5d ms, %d streams counted\n",
		len(r.took), name, took.Milliseconds(), a.Streams.Counted())
}

func (r *reloader) report(played *lab.Figures) figures {
	count, q := r.pusher.next, loadgen.QuantilesOf(r.took)
	f := figures{
		Bench: played.Bench, Seed: played.Seed, Requests: r.steady.Sent + r.bursts,
		Rate: r.steady.Rate(), Failed: played.Failed,
		Refused: r.pusher.refused, Modules: count[module], Endpoints: count[endpoints], Native: count[native],
		Pushes: len(r.took), PushMS: q.P50.Milliseconds(), SlowestMS: q.Max.Milliseconds(),
		Streams: len(played.Scenes) * r.Streams, Cut: r.cut, Audits: len(played.Scenes) - played.Violations,
	}
	for i := range played.Scenes {
		s := &played.Scenes[i]
		f.Waited, f.Peak = f.Waited+s.Waited, max(f.Peak, s.Peak)
		f.AgreeMS, f.DrainMS = max(f.AgreeMS, s.AgreeMS), max(f.DrainMS, s.DrainMS)
	}
	return f
}
