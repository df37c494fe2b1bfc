// Package budget has ten model backends with quotas of their own do a backlog of tasks, and compares who places them:
// nobody, as it was (workers that send batches to the models in turn), the first iteration of a published service with
// weighted deficit round robin, and Warmgate's token_budget, by its admission API and in the path of the requests. The
// backends are simulated and refuse what is beyond their quotas, so that whoever sends too much is seen.
package budget

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/harness"
)

type settings struct {
	bench.Settings
	tasks      int
	quick      bool
	ttl        time.Duration
	contenders string
	parts      string
}

func parse() (settings, error) {
	s := settings{ttl: 3 * time.Second}
	s.Flags(3)
	s.LanesFlag(3) // they wait more than they compute
	s.OwnFlag(apiName)
	flag.IntVar(&s.tasks, "tasks", 2000, "tasks")
	flag.BoolVar(&s.quick, "quick", false, "one round")
	flag.DurationVar(&s.ttl, "ttl", s.ttl, "lease_ttl of the admission API")
	bench.OnlyFlag(&s.contenders, "contenders", bench.Names(contenders, nameOf))
	bench.OnlyFlag(&s.parts, "parts", []string{"tasks", "cost"})
	flag.Parse()
	if s.quick {
		s.Rounds = 1
	}
	return s, s.check()
}

func (s *settings) check() error {
	for _, part := range strings.FieldsFunc(s.parts, func(r rune) bool { return r == ',' }) {
		if part != "tasks" && part != "cost" {
			return fmt.Errorf("-parts: %q, want tasks or cost", part)
		}
	}
	if s.tasks < 100 || s.ttl < time.Second {
		return errors.New("-tasks must be at least 100, -ttl at least 1s")
	}
	return s.Valid()
}

// plays reports whether a part is played.
func (s *settings) plays(part string) bool {
	return s.parts == "" || slices.Contains(strings.Split(s.parts, ","), part)
}

// Benchmark is to be played.
var Benchmark = bench.New("budget", parse, run)

func run(ctx context.Context, s settings) error {
	if _, err := harness.Wasm(ctx, harness.HostEnvoy); err != nil {
		return err
	}
	rep := &report{settings: s}
	if s.plays("tasks") {
		list, err := bench.Named(contenders, s.contenders, nameOf)
		if err != nil {
			return err
		}
		if !slices.Contains(bench.Names(list, nameOf), s.Own) {
			return fmt.Errorf("-own: %q is not played", s.Own)
		}
		if err := rep.playTasks(ctx, list); err != nil {
			return err
		}
	}
	if s.plays("cost") {
		if err := rep.playCost(ctx); err != nil {
			return err
		}
	}
	return bench.Publish(os.Stdout, s.Markdown, rep.configuration(), rep.table(), rep.line(), rep.further()...)
}

// tooLong is when a run has failed: no contender needs a third of it.
const tooLong = 10 * time.Minute

// playTasks plays all rounds of all contenders, each with models and a gateway of its own.
func (rep *report) playTasks(ctx context.Context, list []contender) error {
	s := rep.settings
	rep.contenders = list
	results, err := bench.RoundsSideBySide(ctx, s.Lanes, s.Rounds, len(list), func(
		ctx context.Context, round, i int,
	) (r result, err error) {
		g := newGame(fleet(), tasksOf(s.Seed+uint64(round), s.tasks))
		defer g.close()
		ctx, cancel := context.WithTimeout(ctx, tooLong)
		defer cancel()
		if err := list[i].play(ctx, s, g); err != nil {
			return r, fmt.Errorf("%s: %w", list[i].name, err)
		}
		r = g.judge()
		fmt.Printf("round %d  %-20s %s\n", round+1, list[i].name, columns.Show(&r))
		return r, nil
	})
	rep.AddAll("", bench.Names(list, nameOf), results)
	return err
}
