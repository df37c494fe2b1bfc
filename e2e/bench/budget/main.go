// Command budget has ten model backends with quotas of their own do a backlog of tasks, and compares who places them:
// nobody, as it was (workers that send batches to the models in turn), the first iteration of a published service with
// weighted deficit round robin, and Warmgate's token_budget, by its admission API and in the path of the requests. The
// backends are simulated and refuse what is beyond their quotas, so that whoever sends too much is seen.
//
// The last line of its output is one JSON object.
package main

import (
	"cmp"
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
	rounds     int
	lanes      int
	tasks      int
	quick      bool
	seed       uint64
	ttl        time.Duration
	contenders string
	own        string
	parts      string
	markdown   string
}

func parse() (settings, error) {
	s := settings{ttl: 3 * time.Second}
	flag.IntVar(&s.rounds, "rounds", 3, "paired rounds")
	flag.IntVar(&s.lanes, "lanes", 3, "contenders that are played side by side: they wait more than they compute")
	flag.IntVar(&s.tasks, "tasks", 2000, "tasks")
	flag.BoolVar(&s.quick, "quick", false, "one round")
	flag.Uint64Var(&s.seed, "seed", 1, "seed of the first round")
	flag.DurationVar(&s.ttl, "ttl", s.ttl, "lease_ttl of the admission API")
	flag.StringVar(&s.contenders, "contenders", "", "only these, divided by commas: "+
		strings.Join(bench.Names(contenders, nameOf), ", "))
	flag.StringVar(&s.own, "own", "", "the contender whose figures the last line has, which must be played (default "+
		apiName+")")
	flag.StringVar(&s.parts, "parts", "", "only these, divided by commas: tasks, cost")
	flag.StringVar(&s.markdown, "markdown", "", "also write the tables to this file, as Markdown")
	flag.Parse()
	if s.quick {
		s.rounds = 1
	}
	return s, s.check()
}

func (s *settings) check() error {
	s.own = cmp.Or(s.own, apiName)
	for _, part := range strings.FieldsFunc(s.parts, func(r rune) bool { return r == ',' }) {
		if part != "tasks" && part != "cost" {
			return fmt.Errorf("-parts: %q, want tasks or cost", part)
		}
	}
	if s.rounds < 1 || s.lanes < 1 || s.tasks < 100 {
		return errors.New("-rounds and -lanes must be at least 1, -tasks at least 100")
	}
	if s.ttl < time.Second {
		return errors.New("-ttl must be at least 1s")
	}
	return nil
}

// plays reports whether a part is played.
func (s *settings) plays(part string) bool {
	return s.parts == "" || slices.Contains(strings.Split(s.parts, ","), part)
}

func main() { bench.Main("budget", parse, run) }

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
		if !slices.Contains(bench.Names(list, nameOf), s.own) {
			return fmt.Errorf("-own: %q is not played", s.own)
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
	return bench.Publish(os.Stdout, s.markdown, rep.configuration(), rep.table(), rep.line(), rep.further()...)
}

// tooLong is when a run has failed: no contender needs a third of it.
const tooLong = 10 * time.Minute

// playTasks plays all rounds of all contenders, each with models and a gateway of its own.
func (rep *report) playTasks(ctx context.Context, list []contender) error {
	s := rep.settings
	rep.contenders, rep.results = list, make([][]result, len(list))
	for i := range list {
		rep.results[i] = make([]result, s.rounds)
	}
	return bench.SideBySide(ctx, s.lanes, s.rounds*len(list), func(ctx context.Context, _, n int) error {
		round := n / len(list)
		i := bench.Order(len(list), round)[n%len(list)]
		g := newGame(fleet(), tasksOf(s.seed+uint64(round), s.tasks))
		defer g.close()
		ctx, cancel := context.WithTimeout(ctx, tooLong)
		defer cancel()
		if err := list[i].play(ctx, s, g); err != nil {
			return fmt.Errorf("%s: %w", list[i].name, err)
		}
		r := g.judge()
		rep.results[i][round] = r
		fmt.Printf("round %d  %-20s %s\n", round+1, list[i].name, r)
		return nil
	})
}
