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
	only             []string // scenes to play; all if empty
	span             time.Duration
	version          string // of Envoy
	servers, workers int
	herd, leavers    int
	streams          int
	rate             float64
	// oneSite plays all scenes on the module that can be crashed, which saves the start of a gateway.
	oneSite  bool
	seed     uint64
	progress io.Writer
}

// figures are what a run ends with.
type figures struct {
	Bench      string   `json:"bench"`
	Seed       uint64   `json:"seed"`
	Violations int      `json:"violations"`
	Requests   int      `json:"requests"`
	Failed     int      `json:"failed"`  // requests and streams that failed although their endpoint did not
	Excused    int      `json:"excused"` // requests and streams that their endpoint failed, or that died with their VM
	Scenes     []result `json:"scenes"`
}

// result is what one scene has shown.
type result struct {
	Scene    string             `json:"scene"`
	Requests int                `json:"requests"`
	Failed   int                `json:"failed"`
	Excused  int                `json:"excused"`
	Left     int                `json:"left"`
	AgreeMS  int64              `json:"agree_ms"` // until all parties counted the same, streams still open
	DrainMS  int64              `json:"drain_ms"` // until nothing was counted after the last end
	Figures  map[string]float64 `json:"figures,omitempty"`
}

// scene is one scenario.
type scene struct {
	name string
	play func(*act) error
	// lost names a kind of loss that the scene brings with it, so that the watch must not report it.
	lost []string
	// trap says that the scene needs the module that can be crashed.
	trap bool
	// bare says that the scene needs an empty stage: no streams are open during it.
	bare bool
}

var scenes = []scene{
	{name: "herd", play: herd, bare: true},
	{name: "clients leave", play: clientsLeave},
	{name: "slow bodies", play: slowBodies},
	{name: "endpoints come and go", play: churn},
	{name: "sick endpoints", play: sick},
	{name: "endpoint hangs", play: hangs},
	{name: "endpoint dies", play: dies},
	{name: "endpoint cuts answers", play: cuts},
	{name: "endpoint fails at once", play: failsFast},
	{name: "endpoint refuses at once", play: refusesFast},
	{name: "bad requests of a client", play: badClient},
	{name: "everything at random", play: nemesis},
	vmLost("fatal"), vmLost("stack"), vmLost("memory"),
}

// act is a scene being played.
type act struct {
	settings
	ctx     context.Context
	site    *audit.Site
	rand    *rand.Rand
	streams *audit.Streams // nil in a bare scene
	result  result
	// mayCut says how many of the streams the scene has cut.
	mayCut int
}

// run plays the scenes and returns the figures also when there is an error. A violation in one scene does not keep the others
// from being played.
func run(ctx context.Context, s settings) (figures, error) {
	f := figures{Bench: "chaos", Seed: s.seed}
	var errs []error
	for _, trap := range []bool{false, true} {
		mine := slices.DeleteFunc(slices.Clone(scenes), func(c scene) bool {
			return (c.trap || s.oneSite) != trap || len(s.only) > 0 && !slices.Contains(s.only, c.name)
		})
		if len(mine) > 0 {
			errs = append(errs, s.onSite(ctx, trap, mine, &f))
		}
	}
	for _, r := range f.Scenes {
		f.Requests += r.Requests
		f.Failed += r.Failed
		f.Excused += r.Excused
	}
	return f, errors.Join(errs...)
}

// onSite plays scenes on a site of their own.
func (s settings) onSite(ctx context.Context, trap bool, list []scene, f *figures) error {
	o := audit.Options{Servers: s.servers, Workers: s.workers, Version: s.version}
	if trap {
		var err error
		if o.Module, err = harness.Wasm(ctx, harness.HostEnvoyChaos); err != nil {
			return err
		}
	}
	site, err := audit.Open(ctx, o)
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range list {
		a := &act{settings: s, ctx: ctx, site: site, rand: rand.New(rand.NewPCG(s.seed, 0)), result: result{Scene: c.name, Figures: map[string]float64{}}}
		if err := a.perform(c); err != nil {
			f.Violations++
			errs = append(errs, fmt.Errorf("%s: %w", c.name, err))
			fmt.Fprintf(s.progress, "%-24s VIOLATION: %v\n", c.name, err)
		}
		f.Scenes = append(f.Scenes, a.result)
		if ctx.Err() != nil {
			break
		}
	}
	if len(errs) > 0 {
		errs = append(errs, fmt.Errorf("the log of Envoy ends:\n%s", audit.Tail(site.Gateway.Logs())))
	}
	return errors.Join(append(errs, site.Close())...)
}

// perform plays a scene with streams open, heals what it has broken, and audits.
func (a *act) perform(c scene) error {
	const most = 1 << 14 // requests that could ever be in flight together here
	start := time.Now()
	if err := a.heal(); err != nil {
		return err
	}
	if !c.bare {
		const tokens = 1200 // two minutes: they end when they are told to
		var err error
		if a.streams, err = a.site.OpenStreams(a.ctx, a.settings.streams, tokens); err != nil {
			return err
		}
		defer a.streams.Release()
	}
	watch := a.site.Watch(a.ctx, most, c.lost...)
	err := c.play(a)
	if err == nil {
		err = a.heal()
	}
	if err == nil && a.streams != nil {
		err = a.auditStreams()
	}
	if err == nil {
		var took time.Duration
		took, err = a.site.Drained(a.ctx)
		a.result.DrainMS = took.Milliseconds()
	}
	_, seen := watch.Stop()
	r := a.result
	fmt.Fprintf(a.progress, "%-24s %3.0f s, %5d requests, %4d left, %3d failed by their endpoint, %d otherwise; counts equal after %d ms, 0 after %d ms  %v\n",
		c.name, time.Since(start).Seconds(), r.Requests, r.Left, r.Excused, r.Failed, r.AgreeMS, r.DrainMS, r.Figures)
	return errors.Join(err, seen)
}

// auditStreams compares all counts while the streams are open, then lets these end.
func (a *act) auditStreams() error {
	took, complete, cut, err := a.site.EndStreams(a.ctx, a.streams)
	a.result.AgreeMS = max(a.result.AgreeMS, took.Milliseconds())
	if err != nil {
		return err
	}
	a.result.Requests += a.settings.streams
	a.result.Excused += min(cut, a.mayCut)
	if cut > a.mayCut {
		a.result.Failed += cut - a.mayCut
		return fmt.Errorf("%d of %d streams were cut, only %d had reason to be", cut, complete+cut, a.mayCut)
	}
	return nil
}

// heal starts dead servers, makes all of them well, gives the gateway the shipped configuration and the whole list, and
// waits until the plugin balances again. Endpoints that were ejected may still be.
func (a *act) heal() error {
	for _, srv := range a.site.Servers() {
		if a.site.Dead(srv) {
			if _, err := a.site.AddServer(srv.Addr()); err != nil {
				return err
			}
			continue
		}
		if err := srv.SetTuning(audit.ServerConfig().Tuning); err != nil {
			return err
		}
	}
	if err := a.site.Gateway.PushPlugin(a.ctx, audit.Config()); err != nil {
		return err
	}
	if err := a.site.Gateway.PushEndpoints(a.ctx, a.site.Endpoints()); err != nil {
		return err
	}
	return a.site.AwaitReason(a.ctx, "chosen")
}

// play sends traffic of the given requests for a time and counts its end: excused says which failures are the endpoint's own.
func (a *act) play(rate float64, span, timeout time.Duration, during func() error,
	request func(*rand.Rand, int) loadgen.Request, excused func(audit.Tally) int,
) (audit.Tally, error) {
	client := a.site.Client(timeout)
	defer client.Close()
	t := audit.NewTraffic(client, rate, a.rand.Uint64(), request)
	t.Start(a.ctx)
	end := time.Now().Add(span)
	err := during()
	a.sleep(time.Until(end))
	t.Pause()
	tally := t.Tally()
	a.result.Requests += tally.Sent
	a.result.Left += tally.Left
	may := min(excused(tally), tally.Failed())
	a.result.Excused += may
	a.result.Failed += tally.Failed() - may
	if tally.Failed() > may {
		err = errors.Join(err, fmt.Errorf("%d of %d requests failed without reason: %v, first: %s", tally.Failed()-may, tally.Sent, tally.Errors, tally.First))
	}
	return tally, err
}

// sleep waits for d or for the end of the run.
func (a *act) sleep(d time.Duration) {
	select {
	case <-a.ctx.Done():
	case <-time.After(d):
	}
}

func nothing() error { return nil }

func none(audit.Tally) int { return 0 }

// of returns how many failures of the given kinds there were.
func of(kinds ...string) func(audit.Tally) int {
	return func(t audit.Tally) (n int) {
		for _, k := range kinds {
			n += t.Errors[k]
		}
		return n
	}
}
