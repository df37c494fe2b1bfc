// Command clusters chooses among three clusters of unequal speed, of which one slows down and recovers, and one fails
// every request at once for a while and recovers. Warmgate's cluster_metrics is compared with Envoy's
// weighted_clusters, whose weights are the speeds, and with counts per VM: the rules that Higress's plugin publishes,
// with a state of its own for each of two VMs. Each plays with a gateway and servers of its own, two side by side; in
// every round they get requests at the same times, in rotating order.
//
// The counts per VM are played by the load generator in the gateway's place, without the plugin: each request belongs
// to a VM at random, and carries the choice in the header that the route takes its cluster from. So they cost no time
// and lose no news.
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
)

// load is that of the targets.
const load = 0.6

type settings struct {
	rounds    int
	lanes     int
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
	flag.IntVar(&s.rounds, "rounds", 3, "paired rounds")
	flag.BoolVar(&s.quick, "quick", false, "one round")
	flag.IntVar(&s.lanes, "lanes", 2, "contenders that are played side by side")
	flag.Float64Var(&s.rate, "load", load, "arrivals as a part of what all clusters can serve")
	flag.Uint64Var(&s.seed, "seed", 1, "seed of the first round")
	flag.StringVar(&s.contender, "contenders", "", "only these, divided by commas: "+
		strings.Join(bench.Names(contenders, nameOf), ", "))
	flag.StringVar(&s.own, "own", "", "the contender whose figures the last line has, which must be played (default "+
		contenders[0].name+")")
	flag.StringVar(&s.markdown, "markdown", "", "also write the table to this file, as Markdown")
	flag.Parse()
	if s.quick {
		s.rounds = 1
	}
	if s.rounds < 1 || s.lanes < 1 {
		return s, errors.New("-rounds and -lanes must be at least 1")
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
	if s.own != "" && !slices.Contains(bench.Names(list, nameOf), s.own) {
		return fmt.Errorf("-own: %q is not played", s.own)
	}
	s.own = cmp.Or(s.own, contenders[0].name)
	rep := &report{settings: s, contenders: list, results: make([][]result, len(list))}
	for i := range list {
		rep.results[i] = make([]result, s.rounds)
	}
	if err := bench.SideBySide(ctx, s.lanes, s.rounds*len(list), func(ctx context.Context, _, n int) error {
		round := n / len(list)
		i := bench.Order(len(list), round)[n%len(list)]
		r, err := playAlone(ctx, s, &list[i], s.seed+uint64(round))
		rep.results[i][round] = r
		fmt.Printf("round %d  %-26s %s\n", round+1, list[i].name, r)
		return err
	}); err != nil {
		return err
	}
	return bench.Publish(os.Stdout, s.markdown, rep.configuration(), rep.table(), rep.line())
}

// playAlone has a contender play with a gateway and servers of its own: what one has learned of a cluster lives on in a
// gateway, whatever is configured next.
func playAlone(ctx context.Context, s settings, c *contender, seed uint64) (r result, err error) {
	st, err := newStage(ctx)
	if err != nil {
		return r, err
	}
	defer st.close()
	return st.play(ctx, s, c, seed)
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
	recovered time.Duration // in such spans the share after a recovery is counted
}

var usual = phases{
	warm: 3 * time.Second, slow: 5 * time.Second, recovers: 10 * time.Second, fails: 22 * time.Second,
	works: 24 * time.Second, end: 44 * time.Second, slowBy: 10, recovered: time.Second,
}
