// Package attacks plays honest traffic through real gateways that one client, or one server, attacks, and the same
// traffic at the same time through gateways without an attacker. It measures what the attacker achieves: requests
// moved, endpoints ejected, caps passed, caches forgotten, latency.
package attacks

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
)

type settings struct {
	bench.Settings
	warm    time.Duration
	span    time.Duration
	load    float64
	attacks string
}

func parse() (settings, error) {
	var s settings
	s.Flags(3)
	s.WorkersFlag(2)
	flag.DurationVar(&s.warm, "warm", 2*time.Second, "time before that with the same traffic, not measured")
	flag.DurationVar(&s.span, "span", 13*time.Second, "time in which the measured requests of a run arrive")
	flag.Float64Var(&s.load, "load", 0.53, "share of the servers' slots that honest traffic uses")
	bench.OnlyFlag(&s.attacks, "attacks", ids()) // each with all its scenarios
	flag.Parse()
	return s, nil
}

// Benchmark is to be played.
var Benchmark = bench.New("attacks", parse, run)

func run(ctx context.Context, s settings) error {
	chosen, err := selected(s.attacks)
	if err != nil {
		return err
	}
	rep := &report{settings: s, attacks: chosen, results: make([][]result, len(chosen))}
	for round := range s.Rounds {
		for _, together := range batches {
			if err := rep.play(ctx, round, together); err != nil {
				return err
			}
		}
	}
	return bench.Publish(os.Stdout, s.Markdown, rep.configuration(), rep.table(), rep.line(), rep.targetTable())
}

// play has one round of the scenarios that are played together, as far as an attack of theirs was chosen.
func (rep *report) play(ctx context.Context, round int, together []string) error {
	var arms []*arm
	for _, name := range together {
		sc := scenarioOf(name)
		var of []*arm
		for i := range rep.attacks {
			if rep.attacks[i].scenario == name {
				of = append(of, &arm{scenario: sc, attack: &rep.attacks[i], place: i, round: round})
			}
		}
		if len(of) > 0 {
			arms = append(arms, &arm{scenario: sc, round: round}, &arm{scenario: sc, round: round, again: true})
			arms = append(arms, of...)
		}
	}
	if len(arms) == 0 {
		return nil
	}
	if err := playAll(ctx, rep.settings, arms); err != nil {
		return err
	}
	for _, a := range arms {
		fmt.Printf("round %d  %s\n", round+1, a)
	}
	for i := range arms {
		if arms[i].attack == nil {
			continue
		}
		first, second := controlsOf(arms, arms[i].scenario)
		rep.results[arms[i].place] = append(rep.results[arms[i].place], resultOf(arms[i], first, second, rep.settings))
	}
	return nil
}

// controlsOf returns the two arms of a scenario without an attacker.
func controlsOf(arms []*arm, sc *scenario) (first, second *arm) {
	for _, a := range arms {
		switch {
		case a.scenario != sc || a.attack != nil:
		case a.again:
			second = a
		default:
			first = a
		}
	}
	return first, second
}
