// Command demo shows Warmgate beside its rivals, on this machine alone: three gateways, each a real Envoy with two
// workers in front of twelve simulated vLLM servers of its own, get the same requests at the same times. It plays three
// acts: chats on unequal servers, conversations, and more than the servers can answer. Between them new policies are
// pushed while requests go on.
//
// With -redis it plays one act, in which each contender has two gateways: what each sees alone, and one view in Redis.
//
// It exits with status 1 if a request failed. With KEEP=1 in the environment it stays up until Ctrl-C.
package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	randv2 "math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/bench/overload"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/lab"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/e2e/wait"
	"github.com/warmgate/warmgate/internal/live"
	"github.com/warmgate/warmgate/internal/live/page"
)

// workers of each gateway.
const workers = 2

// show is what a demo compares.
type show struct {
	command  string // that it is started with
	file     string // name of the record that it leaves
	gateways int    // of each contender
	columns  [contenders]string
	acts     func(span time.Duration) []*act // whose requests arrive for so long
}

// fleet is what each contender has, in words.
func (s *show) fleet() string {
	gateways := "a gateway"
	if s.gateways > 1 {
		gateways = fmt.Sprintf("%d gateways", s.gateways)
	}
	return fmt.Sprintf("%s, Envoy %s with %d workers, in front of %d simulated vLLM servers", gateways,
		cmp.Or(os.Getenv("ENVOY"), harness.DefaultVersion), workers, serverCount)
}

var (
	threeActs = show{
		command: "make demo", file: "demo.html", gateways: 1,
		columns: [contenders]string{"Envoy A", "Envoy B", "Warmgate"},
		acts: func(span time.Duration) []*act {
			a := chats(0.75, span, [contenders]compare.Policy{
				compare.RoundRobin, compare.LeastRequest, compare.Warmgate,
			})
			a.note = "Envoy's least_request with selection_method FULL_SCAN does as well as Warmgate in front of one " +
				"gateway's servers; in front of several, see make demo-redis."
			return []*act{a, conversations(span), tooMany(span)}
		},
	}
	aloneAndTogether = show{
		command: "make demo-redis", file: "demo-redis.html", gateways: 2,
		columns: [contenders]string{"Envoys", "Warmgate, each alone", "Warmgate, one view"},
		acts: func(span time.Duration) []*act {
			return []*act{chats(0.85, span, [contenders]compare.Policy{
				compare.FullScan, named("Warmgate alone", compare.Warmgate),
				named("Warmgate with Redis", compare.Shared),
			})}
		},
	}
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	show := threeActs
	if len(os.Args) == 2 && os.Args[1] == "-redis" {
		show = aloneAndTogether
	}
	d := newDemo(show, os.Stdout)
	d.keep = os.Getenv("KEEP") == "1"
	err := lab.Try(func() {
		d.file = filepath.Join(lab.Must(harness.Root()), "build", "out", show.file)
		d.run(ctx, span)
	})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// demo is one showing.
type demo struct {
	show    show
	screen  *screen
	keep    bool   // everything up until Ctrl-C
	file    string // that has all of it in the end
	columns []*column
	played  []*played
	failed  atomic.Int64            // requests that failed between the acts
	playing atomic.Pointer[playing] // nil before the first act
	drawing atomic.Bool             // the act is played now
	page    *page.Server

	mu     sync.Mutex
	frames []live.Frame // all that were shown
}

func newDemo(s show, out *os.File) *demo {
	d := &demo{show: s, screen: newScreen(out)}
	d.page = page.New(d.facts(), "")
	return d
}

// errFailed is the error of a request that failed, which the demo must not hide.
var errFailed = errors.New("requests failed; see the tables")

func (d *demo) run(ctx context.Context, span time.Duration) {
	began := time.Now()
	acts := d.show.acts(span)
	d.open(ctx, acts[0])
	stopPage, stopFrames := d.serve(ctx), d.watch(ctx)
	lab.Each(func() {
		for i, a := range acts {
			d.play(ctx, a, i)
		}
		d.explain()
		d.sumUp(ctx)
		d.screen.line("\nAll of this took %.0f s.", time.Since(began).Seconds())
		d.keepRecord()
		d.stay(ctx)
		lab.Check(d.verdict())
	}, stopFrames, stopPage, func() {
		for _, c := range d.columns {
			lab.Check(c.stage.Close())
		}
	})
}

// open fetches Envoy, builds the plugin, which is quick when it has been done before, and starts everything for the
// first act.
func (d *demo) open(ctx context.Context, first *act) {
	d.screen.line("Fetching Envoy (about 30 MB the first time) …")
	d.screen.line("  %s", lab.Must(harness.Envoy(ctx, "")))
	d.screen.line("Building the plugin …")
	d.screen.line("  %s", lab.Must(harness.Wasm(ctx, harness.HostEnvoy)))
	redis := ""
	if d.show.gateways > 1 {
		d.screen.line("Starting Redis (fetched the first time) …")
		redis = lab.Must(redisserver.Start(ctx, redisserver.Options{})).Addr()
		d.screen.line("  %s", redis)
	}
	d.screen.line("Starting for each of %d contenders %s …", contenders, d.show.fleet())
	d.columns = make([]*column, contenders)
	lab.All(contenders, func(i int) {
		c := &column{name: d.show.columns[i], token: rand.Text(), policy: first.policies[i]}
		c.stage = lab.Must(compare.NewStage(ctx, compare.Options{
			Gateways: d.show.gateways, Workers: workers, Servers: first.servers, Redis: redis, First: c.shown(c.policy),
			Seen: c.saw, Edit: harness.OfFile("envoy.yaml", overload.Prepare),
		}))
		d.columns[i] = c
	})
}

// play plays an act before all columns at once.
func (d *demo) play(ctx context.Context, a *act, i int) {
	if i > 0 {
		d.change(ctx, a)
	}
	title := fmt.Sprintf("Act %d. %s.", i+1, a.title())
	d.screen.line("\n%s", title)
	if d.screen.terminal {
		d.screen.line("# runs at a server, . waits there or in the gateway's queue. TTFT: time to first token.\n")
	}
	p := &played{act: a}
	var gateways []*harness.Gateway
	for _, c := range d.columns {
		gateways = append(gateways, c.stage.Gateways...)
	}
	d.playing.Store(&playing{title, time.Now()})
	d.drawing.Store(true)
	var err error
	p.cpu = lab.Must(bench.Use(gateways, func() {
		err = lab.Try(func() {
			lab.All(contenders, func(k int) { p.results[k] = a.play(ctx, d.columns[k].stage, k) })
		})
	}))
	d.drawing.Store(false)
	lab.Check(ctx.Err(), err)
	d.played = append(d.played, p)
	d.screen.line("")
	lab.Check(p.table().Write(d.screen.out))
	d.screen.line("%s", p.machine())
	for k := range p.results {
		for _, text := range p.results[k].failures {
			d.screen.line("%s: %s", a.policies[k].Name, text)
		}
	}
}

// sumUp says what users got, on the page as well.
func (d *demo) sumUp(ctx context.Context) {
	note := "What users got:"
	d.screen.line("\nWhat users got:")
	for _, p := range d.played {
		note += "\n- " + p.summary()
		d.screen.line("- %s", p.summary())
	}
	d.playing.Store(&playing{note: note})
	lab.Check(wait.For(ctx, 2*every)) // until it is shown
}

// change pushes the policies of an act while a trickle of requests continues, to show that no request fails for it.
func (d *demo) change(ctx context.Context, to *act) {
	const rate, seed = 20, 11
	lab.All(contenders, func(i int) {
		c := d.columns[i]
		trickle := audit.NewTraffic(c.stage.Client(), rate, seed, func(r *randv2.Rand, id int) loadgen.Request {
			q := loadgen.Request{ID: id, MaxTokens: 1}
			q.Body = lab.Body(loadgen.Text(r, 10), &q)
			return q
		})
		trickle.Start(context.WithoutCancel(ctx)) // requests under way are completed, not cut off
		began := time.Now()
		err := lab.Try(func() { c.take(ctx, to, i) })
		took := time.Since(began)
		time.Sleep(200 * time.Millisecond) // the first requests under the new policy belong to the switch too
		trickle.Pause()
		sum := trickle.Tally()
		d.failed.Add(int64(sum.Failed()))
		lab.Check(err)
		d.screen.line("%s: pushed %s, live after %s: meanwhile %d requests served, %d failed", c.name,
			to.policies[i].Name, seconds(took), sum.OK, sum.Failed())
	})
}

// stay keeps the gateways up until the user ends it.
func (d *demo) stay(ctx context.Context) {
	if !d.keep {
		d.screen.line("\nThe gateways and the servers stop now. `%s KEEP=1` leaves them up to play with.",
			d.show.command)
		return
	}
	g := d.columns[contenders-1].stage.Gateway
	d.screen.line(`
The gateways stay up, Warmgate's with the last policy. Try:

  curl -i %s -H 'content-type: application/json' \
    -d '{"model":"sim","messages":[{"role":"user","content":"Hello"}],"max_tokens":20}'

  curl -s --unix-socket %s/admin.sock http://admin/stats/prometheus | grep '^warmgate_'

Its files are in %s. Ctrl-C stops it.`, g.URL()+compare.Path, g.Dir(), g.Dir())
	<-ctx.Done()
}

// verdict is the error of the whole demo.
func (d *demo) verdict() error {
	failed := int(d.failed.Load())
	for _, p := range d.played {
		for i := range p.results {
			failed += p.results[i].failed
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d %w", failed, errFailed)
	}
	return nil
}
