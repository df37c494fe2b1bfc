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
	"github.com/warmgate/warmgate/e2e/loadgen"
)

type settings struct {
	only             []string // scenes to play; all if empty
	span             time.Duration
	version          string // of Redis
	servers, workers int
	herd, crowd      int
	streams          int
	rate             float64
	seed             uint64
	progress         io.Writer
}

// gateways is how many there are.
const gateways = 2

// figures are what a run ends with.
type figures struct {
	Bench      string   `json:"bench"`
	Seed       uint64   `json:"seed"`
	Violations int      `json:"violations"`
	Requests   int      `json:"requests"`
	Failed     int      `json:"failed"`
	Scenes     []result `json:"scenes"`
	*judgement          // nil if there was no outage
}

// result is what one scene has shown. Times to answer are those of requests that their server answers at once.
type result struct {
	Scene        string             `json:"scene"`
	Requests     int                `json:"requests"`
	Failed       int                `json:"failed"`
	Lost         int                `json:"lost"` // with their gateway
	Left         int                `json:"left"` // clients that left as planned
	Fallbacks    map[string]int     `json:"fallbacks"`
	BaseP99MS    float64            `json:"base_p99_ms"`    // before the fault
	FirstP99MS   float64            `json:"first_p99_ms"`   // in its first second
	LaterP99MS   float64            `json:"later_p99_ms"`   // from its second second on
	Outage       bool               `json:"outage"`         // no gateway could reserve in Redis
	AddedFirstMS float64            `json:"added_first_ms"` // by the fault, to the p99; noise may make it negative
	AddedLaterMS float64            `json:"added_later_ms"`
	AgreeMS      int64              `json:"agree_ms"` // after the fault, until all parties counted the same, streams still open
	DrainMS      int64              `json:"drain_ms"` // until nothing was counted after the last end
	Figures      map[string]float64 `json:"figures,omitempty"`
}

// act is a scene being played.
type act struct {
	settings
	ctx     context.Context
	place   *place
	site    *audit.Site
	rand    *rand.Rand
	streams *audit.Streams
	result  result
	mayLose int // streams that the scene has cut with their gateway
}

// run plays the scenes and returns the figures also when there is an error. A violation in one scene does not keep the others
// from being played.
func run(ctx context.Context, s settings) (figures, error) {
	f := figures{Bench: "chaos-redis", Seed: s.seed}
	var errs []error
	for _, clustered := range []bool{false, true} {
		mine := slices.DeleteFunc(slices.Clone(scenes), func(c scene) bool {
			return c.clustered != clustered || len(s.only) > 0 && !slices.Contains(s.only, c.name)
		})
		if len(mine) > 0 {
			errs = append(errs, s.at(ctx, clustered, mine, &f))
		}
	}
	for _, r := range f.Scenes {
		f.Requests += r.Requests
		f.Failed += r.Failed
	}
	if f.judgement = judge(f.Scenes); f.judgement != nil {
		fmt.Fprintln(s.progress, f.judgement)
	}
	return f, errors.Join(errs...)
}

// at plays scenes at a place of their own.
func (s settings) at(ctx context.Context, clustered bool, list []scene, f *figures) error {
	p, err := openPlace(ctx, s, clustered)
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range list {
		a := &act{
			settings: s, ctx: ctx, place: p, site: p.site, rand: rand.New(rand.NewPCG(s.seed, 0)),
			result: result{Scene: c.name, Figures: map[string]float64{}},
		}
		if err := a.perform(c); err != nil {
			f.Violations++
			errs = append(errs, fmt.Errorf("%s: %w", c.name, err))
			fmt.Fprintf(s.progress, "%-26s VIOLATION: %v\n", c.name, err)
		}
		f.Scenes = append(f.Scenes, a.result)
		if ctx.Err() != nil {
			break
		}
	}
	if len(errs) > 0 {
		errs = append(errs, fmt.Errorf("the log of the first gateway ends:\n%s", audit.Tail(p.site.Gateway.Logs())))
	}
	return errors.Join(append(errs, p.close())...)
}

// perform plays a scene with streams open, heals what it has broken, and audits.
func (a *act) perform(c scene) error {
	const most = 1 << 14 // requests that could ever be in flight together here
	start := time.Now()
	if err := a.heal(); err != nil {
		return err
	}
	const tokens = 1200 // two minutes: they end when they are told to
	var err error
	if a.streams, err = a.site.OpenStreams(a.ctx, a.settings.streams, tokens); err != nil {
		return err
	}
	defer a.streams.Release()
	before, err := a.place.fallbacks(a.ctx)
	if err != nil {
		return err
	}
	watch := a.site.Watch(a.ctx, most)
	err = c.play(a)
	if err == nil {
		err = a.heal()
	}
	if err == nil {
		err = a.auditStreams()
	}
	if err == nil {
		var took time.Duration
		took, err = a.site.Drained(a.ctx)
		a.result.DrainMS = took.Milliseconds()
	}
	if err == nil {
		err = a.place.expires(a.ctx)
	}
	_, seen := watch.Stop()
	after, counted := a.place.fallbacks(a.ctx)
	a.result.Fallbacks = minus(after, before)
	a.print(time.Since(start))
	return errors.Join(err, seen, counted)
}

func (a *act) print(took time.Duration) {
	r := a.result
	fmt.Fprintf(a.progress, "%-26s %3.0f s, %5d requests, %d failed; p99 %.1f ms, then %.1f and %.1f; counts equal after %d ms, 0 after %d ms; fell back %v  %v\n",
		r.Scene, took.Seconds(), r.Requests, r.Failed, r.BaseP99MS, r.FirstP99MS, r.LaterP99MS, r.AgreeMS, r.DrainMS, r.Fallbacks, r.Figures)
}

// auditStreams compares all counts while the streams are open, then lets these end.
func (a *act) auditStreams() error {
	took, complete, cut, err := a.site.EndStreams(a.ctx, a.streams)
	a.result.AgreeMS = max(a.result.AgreeMS, took.Milliseconds())
	if err != nil {
		return err
	}
	a.result.Requests += complete + cut
	if cut > a.mayLose {
		a.result.Failed += cut - a.mayLose
		return fmt.Errorf("%d of %d streams were cut, only %d had reason to be", cut, complete+cut, a.mayLose)
	}
	a.result.Lost += cut
	return nil
}

// traffic plays requests through every gateway while the given scene goes on, and counts their end.
func (a *act) traffic(during func() error, request func(*rand.Rand, int) loadgen.Request) error {
	var all []*audit.Traffic
	for i := range a.site.Gateways {
		client := a.site.ClientOf(i, time.Minute)
		defer client.Close()
		t := audit.NewTraffic(client, a.rate/gateways, a.rand.Uint64(), request)
		t.Start(a.ctx)
		all = append(all, t)
	}
	err := during()
	for _, t := range all {
		t.Pause()
		err = errors.Join(err, a.count(t.Tally()))
	}
	return err
}

// count adds up how requests ended.
func (a *act) count(tally audit.Tally) error {
	a.result.Requests += tally.Sent
	a.result.Left += tally.Left
	a.result.Failed += tally.Failed()
	if n := tally.Failed(); n > 0 {
		return fmt.Errorf("%d of %d requests failed: %v, first: %s", n, tally.Sent, tally.Errors, tally.First)
	}
	return nil
}

// sleep waits for d or for the end of the run.
func (a *act) sleep(d time.Duration) {
	select {
	case <-a.ctx.Done():
	case <-time.After(d):
	}
}

func minus(a, b map[string]int) map[string]int {
	out := map[string]int{}
	for k, n := range a {
		if n > b[k] {
			out[k] = n - b[k]
		}
	}
	return out
}
