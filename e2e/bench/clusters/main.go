// Command clusters chooses among three clusters of unequal speed, of which one slows down and recovers, and one fails
// every request at once for a while and recovers. Warmgate's cluster_metrics is compared with Envoy's
// weighted_clusters, whose weights are the speeds, and with counts per VM: the rules that Higress's plugin publishes,
// with a state of its own for each of two VMs. All run through one gateway; in every round they get requests at the
// same times, in rotating order.
//
// The counts per VM are played by the load generator in the gateway's place, without the plugin: each request belongs
// to a VM at random, and carries the choice in the header that the route takes its cluster from. So they cost no time
// and lose no news.
//
// The last line of its output is one JSON object.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
)

type settings struct {
	rounds    int
	quick     bool
	rate      float64
	seed      uint64
	contender string
	own       string
	markdown  string
	phases    phases
}

func parse() (settings, error) {
	s := settings{phases: usual}
	flag.IntVar(&s.rounds, "rounds", 5, "paired rounds")
	flag.BoolVar(&s.quick, "quick", false, "one round")
	flag.Float64Var(&s.rate, "load", 0.6, "arrivals as a part of what all clusters can serve")
	flag.Uint64Var(&s.seed, "seed", 1, "seed of the first round")
	flag.StringVar(&s.contender, "contenders", "", "only these, divided by commas: "+
		strings.Join(bench.Names(contenders, nameOf), ", "))
	flag.StringVar(&s.own, "own", contenders[0].name, "the contender whose figures the last line has")
	flag.StringVar(&s.markdown, "markdown", "", "also write the table to this file, as Markdown")
	flag.Parse()
	if s.quick {
		s.rounds = 1
	}
	if s.rate <= 0 || s.rate > 1 {
		return s, errors.New("-load must be above 0 and at most 1")
	}
	return s, nil
}

func main() { bench.Main("clusters", parse, run) }

func run(ctx context.Context, s settings) error {
	list, err := bench.Named(contenders, s.contender, nameOf)
	if err != nil {
		return err
	}
	st, err := newStage(ctx)
	if err != nil {
		return err
	}
	defer st.close()
	rep := &report{settings: s, contenders: list}
	rep.results, err = bench.Rounds(s.rounds, len(list), nil, func(round, i int) (result, error) {
		r, err := st.play(ctx, s, &list[i], s.seed+uint64(round))
		if err == nil {
			fmt.Printf("round %d  %-24s %s\n", round+1, list[i].name, r)
		}
		return r, err
	})
	if err != nil {
		return err
	}
	return bench.Publish(os.Stdout, s.markdown, rep.configuration(), rep.table(), rep.line())
}

// phases are when what happens in a run, from its beginning.
type phases struct {
	warm      time.Duration // what is before that is not measured
	slow      time.Duration // one cluster slows down
	recovers  time.Duration // and is as before
	fails     time.Duration // another one fails every request
	works     time.Duration // and is as before
	end       time.Duration
	slowBy    int           // how many times as long answers take meanwhile
	recovered time.Duration // in such spans the share after a recovery is compared with that before
}

var usual = phases{
	warm: 5 * time.Second, slow: 10 * time.Second, recovers: 20 * time.Second, fails: 35 * time.Second,
	works: 39 * time.Second, end: 75 * time.Second, slowBy: 10, recovered: time.Second,
}
