package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/audit"
)

// Scene is something that happens to gateways under traffic, and what must hold during it.
type Scene struct {
	Name string
	Play func(*Act)
	// Lost names a kind of loss that the scene brings with it, so that the watch must not report it.
	Lost []string
	// Bare scenes need an empty stage: no streams are open during them.
	Bare bool
}

// Stage is where scenes are played: gateways, and what is behind them.
type Stage struct {
	Scenes []Scene
	// Open starts everything, and returns the gateways and servers whose counts are compared.
	Open func(ctx context.Context, s *Settings) *audit.Site
	// Heal, if set, undoes what a scene has broken, and waits until the plugin balances again.
	Heal func(a *Act)
	// Begin, if set, is called before each scene, and what it returns when all has been audited after it.
	Begin func(a *Act) (end func())
	// Audit, if set, checks what must hold after a scene beside the counts of the site: first while its streams are
	// open, then again when nothing is.
	Audit func(a *Act)
	// Close, if set, ends what Open has started, also if that did not come to its end. Without it that is the site.
	Close func() error
}

// Figures are what a run ends with.
type Figures struct {
	Bench      string   `json:"bench"`
	Seed       uint64   `json:"seed"`
	Violations int      `json:"violations"`
	Requests   int      `json:"requests"`
	Failed     int      `json:"failed"`  // requests and streams that failed although their endpoint and gateway did not
	Excused    int      `json:"excused"` // those that their endpoint failed, or that ended with their VM, gateway or wire
	Scenes     []Result `json:"scenes"`
}

// Chosen returns the stages with the scenes to play: those of the names in Settings.Only, or that have one of these in
// their names if none is called so.
func (s *Settings) Chosen(stages []Stage) (chosen []Stage) {
	var all []Scene
	for _, st := range stages {
		all = append(all, st.Scenes...)
	}
	wanted := func(c Scene) bool {
		return len(s.Only) == 0 || slices.ContainsFunc(s.Only, func(name string) bool {
			called := func(c Scene) bool { return c.Name == name }
			return called(c) || !slices.ContainsFunc(all, called) && strings.Contains(c.Name, name)
		})
	}
	for _, st := range stages {
		st.Scenes = slices.DeleteFunc(slices.Clone(st.Scenes), func(c Scene) bool { return !wanted(c) })
		if len(st.Scenes) > 0 {
			chosen = append(chosen, st)
		}
	}
	return chosen
}

// Run plays the scenes that are chosen and returns the figures also when there is an error. After a violation in one
// scene the others are still played.
func Run(ctx context.Context, name string, s *Settings, stages []Stage) (Figures, error) {
	f := Figures{Bench: name, Seed: s.Seed}
	chosen := s.Chosen(stages)
	if len(chosen) == 0 {
		return f, fmt.Errorf("no scene is called %q", s.Only)
	}
	var errs []error
	for i := range chosen {
		errs = append(errs, chosen[i].playAll(ctx, s, &f))
	}
	for _, r := range f.Scenes {
		f.Requests += r.Requests
		f.Failed += r.Failed
		f.Excused += r.Excused
	}
	return f, errors.Join(errs...)
}

// playAll opens the stage, plays its scenes and closes it.
func (st *Stage) playAll(ctx context.Context, s *Settings, f *Figures) error {
	var site *audit.Site
	err := Try(func() { site = st.Open(ctx, s) })
	if err != nil {
		return errors.Join(err, st.end(site))
	}
	for i := 0; i < len(st.Scenes) && ctx.Err() == nil; i++ {
		c := &st.Scenes[i]
		a := NewAct(ctx, s, site, c.Name)
		if wrong := Try(func() { a.Perform(st, c) }); wrong != nil {
			f.Violations++
			err = errors.Join(err, fmt.Errorf("%s: %w", c.Name, wrong))
			fmt.Fprintf(s.Progress, "%-28s VIOLATION: %v\n", c.Name, wrong)
		}
		f.Scenes = append(f.Scenes, a.Result)
	}
	if err != nil {
		err = fmt.Errorf("%w\nthe log of the first gateway ends:\n%s", err, site.Gateway.LogTail())
	}
	return errors.Join(err, st.end(site))
}

// end closes the stage; site is nil if it did not open.
func (st *Stage) end(site *audit.Site) error {
	switch {
	case st.Close != nil:
		return st.Close()
	case site != nil:
		return site.Close()
	}
	return nil
}

// LongAnswer is the tokens of the streams that are open during a scene: six minutes, also for a busy machine. They are
// ended earlier.
const LongAnswer = 3600

// Perform plays a scene with streams open, heals what it has broken, and audits.
func (a *Act) Perform(st *Stage, c *Scene) {
	const maxInflight = 1 << 14 // requests that could ever be in flight together here
	start := time.Now()
	st.mend(a)
	if !c.Bare {
		a.Streams = Must(a.Site.OpenStreams(a.Ctx, a.Settings.Streams, LongAnswer))
		defer a.Streams.Release()
	}
	end := func() {}
	if st.Begin != nil {
		end = st.Begin(a)
	}
	watch := a.Site.Watch(a.Ctx, maxInflight, c.Lost...)
	err := Try(func() { a.audited(st, c) })
	peak, seen := watch.Stop()
	a.Result.Peak = peak
	err = errors.Join(err, seen, Try(end))
	a.print(time.Since(start))
	Check(err)
}

func (st *Stage) mend(a *Act) {
	if st.Heal != nil {
		st.Heal(a)
	}
}

// audited plays a scene and what must hold after it.
func (a *Act) audited(st *Stage, c *Scene) {
	c.Play(a)
	st.mend(a)
	more := func(*Act) {}
	if st.Audit != nil {
		more = st.Audit
	}
	if a.Streams != nil {
		more(a)
		a.auditStreams()
	}
	took, err := a.Site.Drained(a.Ctx)
	a.Result.DrainMS = max(a.Result.DrainMS, took.Milliseconds())
	Check(err)
	more(a)
}

// auditStreams compares all counts while the streams are open, then lets these end.
func (a *Act) auditStreams() {
	took, complete, cut, err := a.Site.EndStreams(a.Ctx, a.Streams)
	a.Result.AgreeMS = max(a.Result.AgreeMS, took.Milliseconds())
	Check(err)
	a.Result.Requests += complete + cut
	a.Result.Excused += min(cut, a.MayCut)
	a.Result.Failed += max(0, cut-a.MayCut)
	FailIf(cut > a.MayCut, "%d of %d streams were cut, only %d had reason to be", cut, complete+cut, a.MayCut)
}
