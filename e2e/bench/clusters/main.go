// Package clusters chooses among three clusters of unequal speed, of which one slows down and recovers, and one fails
// every request at once for a while and recovers. Warmgate's cluster_metrics is compared with Envoy's
// weighted_clusters, whose weights are the speeds, and with counts per VM: the rules that Higress's plugin publishes,
// with a state of its own for each of two VMs. Each plays with a gateway and servers of its own, two side by side; in
// every round they get requests at the same times, in rotating order.
//
// The counts per VM are played by the load generator in the gateway's place, without the plugin: each request belongs
// to a VM at random, and carries the choice in the header that the route takes its cluster from. So they cost no time
// and lose no news.
package clusters

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
)

// load is that of the targets.
const load = 0.6

type settings struct {
	bench.Settings
	quick     bool
	rate      float64
	contender string
	phases    phases
}

func parse() (settings, error) {
	s := settings{phases: usual}
	s.Flags(3)
	s.LanesFlag(2)
	s.OwnFlag(contenders[0].name)
	flag.BoolVar(&s.quick, "quick", false, "one round")
	flag.Float64Var(&s.rate, "load", load, "arrivals as a part of what all clusters can serve")
	bench.OnlyFlag(&s.contender, "contenders", bench.Names(contenders, nameOf))
	flag.Parse()
	if s.quick {
		s.Rounds = 1
	}
	if s.rate <= 0 || s.rate > 1 {
		return s, errors.New("-load must be above 0 and at most 1")
	}
	return s, s.Valid()
}

// Benchmark is to be played.
var Benchmark = bench.New("clusters", parse, run)

func run(ctx context.Context, s settings) error {
	list, err := bench.Named(contenders, s.contender, nameOf)
	if err != nil {
		return err
	}
	if s.Own != contenders[0].name && !slices.Contains(bench.Names(list, nameOf), s.Own) {
		return fmt.Errorf("-own: %q is not played", s.Own)
	}
	rep := &report{settings: s, contenders: list}
	if err := bench.PlaySideBySide(ctx, &rep.Runs, columns, "", s.Lanes, s.Rounds, bench.Names(list, nameOf), func(
		ctx context.Context, _, round, i int,
	) (r result, err error) {
		// What one has learned of a cluster lives on in a gateway, whatever is configured next.
		st, err := newStage(ctx)
		if err != nil {
			return r, err
		}
		defer st.close()
		return st.play(ctx, s, &list[i], s.Seed+uint64(round))
	}); err != nil {
		return err
	}
	return bench.Publish(os.Stdout, s.Markdown, rep.configuration(), rep.table(), rep.line())
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
