// Package push compares when a gateway hands a request to a model server: at once (blind), while the server has less
// than a fixed number of requests, or while no request waits in the server's own queue. What may not be handed over
// yet waits in the gateway. Users search trees of thoughts, each in a closed loop, and their answers vary in length.
// Beside Warmgate's prefix_cache with each way to push stand Envoy's round_robin and least_request, and vLLM's router.
// All meet the same simulated servers with the same requests, in rotating order.
package push

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/bench/router"
	"github.com/warmgate/warmgate/e2e/bench/scripted"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/traffic"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

type settings struct {
	bench.Settings
	quick     bool
	clients   int
	workloads string
	policies  string
	ahead     bench.List[int]
	caps      bench.List[int]
	variants  []contender
}

func parse() (settings, error) {
	s := settings{caps: []int{12, 16, 24}, ahead: []int{1}}
	s.Flags(5)
	s.WorkersFlag(2)
	s.OwnFlag(ownName)
	flag.BoolVar(&s.quick, "quick", false, "one short round: two minutes")
	flag.IntVar(&s.clients, "clients", 0, "users at once, of every workload (default: its own)")
	flag.StringVar(&s.workloads, "workload", usual, "these, divided by commas: "+
		strings.Join(bench.Names(workloads(), workload.title), ", "))
	flag.Var(&s.caps, "caps", "max_inflight of push: outstanding, divided by commas")
	flag.Var(&s.ahead, "ahead", "push_ahead of further contenders with push: pending, divided by commas")
	bench.OnlyFlag(&s.policies, "policies", bench.Names(contenders(s.caps, s.ahead), contender.title))
	compare.VariantFlag(func(p compare.Policy) {
		s.variants = append(s.variants, contender{Contender: router.Contender{Policy: p, Added: true}})
	})
	flag.Parse()
	if s.quick {
		s.Rounds = 1
	}
	return s, nil
}

// Benchmark is to be played.
var Benchmark = bench.New("push", parse, run)

func run(ctx context.Context, s settings) error {
	rep := &report{settings: s}
	if err := rep.choose(ctx); err != nil {
		return err
	}
	for i := range rep.workloads {
		if err := rep.play(ctx, &rep.workloads[i]); err != nil {
			return fmt.Errorf("%s: %w", rep.workloads[i].name, err)
		}
	}
	return bench.Publish(os.Stdout, s.Markdown, rep.configuration(), rep.table(), rep.line())
}

// choose takes the workloads and the contenders that the settings name.
func (rep *report) choose(ctx context.Context) (err error) {
	s := rep.settings
	if rep.workloads, err = bench.Named(workloads(), s.workloads, workload.title); err != nil {
		return err
	}
	for i := range rep.workloads {
		rep.workloads[i].adjust(s)
	}
	chosen, err := bench.Named(contenders(s.caps, s.ahead), s.policies, contender.title)
	if err != nil {
		return err
	}
	rep.contenders, err = router.Installed(ctx, append(chosen, s.variants...), contenderOf, &rep.Notes)
	return err
}

// play has every contender play a workload once a round.
func (rep *report) play(ctx context.Context, w *workload) error {
	s, list := rep.settings, rep.contenders
	return compare.On(ctx, compare.Options{
		Workers: s.Workers, Servers: slices.Repeat([]vllmsim.Config{w.server}, servers), First: compare.RoundRobin,
	}, func(stage *compare.Stage) error {
		return bench.Play(&rep.Runs, columns, w.name, s.Rounds, bench.Names(list, contender.title),
			func(round int) ([]traffic.Script, error) { return w.scripts(s.Seed + uint64(round)), nil },
			func(scripts []traffic.Script, i int) (result, error) { return list[i].play(ctx, stage, w, scripts) })
	})
}

// report is the output of the benchmark.
type report struct {
	bench.Notes
	bench.Runs[result] // by workload
	settings           settings
	workloads          []workload
	contenders         []contender
}

func (rep *report) table() *bench.Table {
	return rep.Tabulate(columns, "workload, contender: median (min..max)")
}

// configuration returns what was compared.
func (rep *report) configuration() []string {
	lines := []string{
		"measured: from the first tree that does not only warm up to when the last one begins; every request carries " +
			"its tree in " + scripted.SessionHeader,
	}
	for i := range rep.workloads {
		lines = append(lines, rep.workloads[i].describe())
	}
	for i := range rep.contenders {
		lines = append(lines, rep.contenders[i].Name()+": "+rep.contenders[i].Describe())
	}
	return append(lines, rep.Notes...)
}

// result is what one contender did with one workload.
type result struct {
	scripted.Figures
	uneven      float64 // requests of the busiest server over the mean of all
	queued      float64 // time that requests waited in servers for room, summed, s
	besideFree  float64 // time in which a server had requests waiting while another could have run one, s
	preemptions float64
	cpu         float64 // share of the machine's CPU time that was used, by everything
}

// windowOf begins with the first tree that is not there to warm up: caches have filled by then, and what is learned of
// the servers is known. It ends with the beginning of the last tree: from then on there are fewer users every moment.
func windowOf(begins []time.Duration, warm int) scripted.Window {
	return scripted.Window{From: begins[min(warm, len(begins)-1)], To: slices.Max(begins)}
}

// resultOf reduces the samples of a play on a stage, and takes what its servers have counted in the whole run.
func resultOf(samples []loadgen.Sample, measured scripted.Window, stage *compare.Stage) result {
	r := result{Figures: measured.Figures(samples), besideFree: stage.Fleet.State().QueueingWhileFree}
	r.uneven = r.Uneven(len(stage.Servers))
	for _, s := range stage.Servers {
		st := s.State()
		r.queued += st.QueuedSeconds
		r.preemptions += float64(st.Preemptions)
	}
	return r
}

func tokens(r *result) float64  { return r.Rate }
func cached(r *result) float64  { return r.Cached }
func ttftP90(r *result) float64 { return bench.MS(r.Summary.TTFT.P90) }
func ttftP99(r *result) float64 { return bench.MS(r.Summary.TTFT.P99) }

var columns = bench.Columns[result]{
	bench.Col("tokens/s", "%.0f", tokens),
	bench.Col("TTFT p50 ms", "%.0f", func(r *result) float64 { return bench.MS(r.Summary.TTFT.P50) }),
	bench.Col("p90", "%.0f", ttftP90),
	bench.Col("p99", "%.0f", ttftP99),
	bench.Col("cached share", "%.3f", cached),
	bench.Col("queued in servers, request·s", "%.1f", func(r *result) float64 { return r.queued }),
	bench.Col("… beside a server with room, s", "%.1f", func(r *result) float64 { return r.besideFree }),
	bench.Col("preemptions", "%.0f", func(r *result) float64 { return r.preemptions }),
	bench.Col("max/mean per server", "%.2f", func(r *result) float64 { return r.uneven }),
	bench.Col("errors", "%.0f", func(r *result) float64 { return float64(r.Failed) }),
	bench.Col("CPU of the machine, %", "%.0f", func(r *result) float64 { return 100 * r.cpu }),
}

// targets are of medians.
var targets = []bench.Target{
	{Name: "tokens_vs_blind", Limit: 1.25, Least: true},
	{Name: "ttft_p90_vs_blind", Limit: 1. / 5},
	{Name: "tokens_vs_outstanding", Limit: 1.2, Least: true},
	{Name: "trees24_cached", Limit: 0.92, Least: true},
	{Name: "trees24_ttft_p99_vs_best", Limit: 1},
}

// line returns the last line of the output: figures of push: pending, or of the contender that is named as own, medians
// of the rounds. Ratios are formed round by round, but for the one to the best of the others, which is of medians, and
// those of the limits. docs/benchmarks/push.md describes them.
func (rep *report) line() bench.Line {
	s := rep.settings
	l := bench.Line{
		"bench": "push", "own": s.Own, "rounds": s.Rounds, "workers": s.Workers,
		"errors": rep.Count(func(r *result) int { return r.Failed }),
	}
	l.Figure("tokens_vs_blind", rep.Ratio("trees2", s.Own, blindName, tokens))
	l.Figure("ttft_p90_vs_blind", rep.Ratio("trees2", s.Own, blindName, ttftP90))
	if best := rep.bestCap("trees2"); best != nil {
		l["best_cap"] = best.cap
		l.Figure("tokens_vs_outstanding", rep.Ratio("trees2", s.Own, best.Name(), tokens))
	}
	l.Figure("trees24_cached", rep.Spread("trees24", s.Own, cached))
	if ttft := rep.Spread("trees24", s.Own, ttftP99); ttft != nil {
		l.Spread("trees24_ttft_p99_ms", ttft)
		if best, p99 := rep.lowest("trees24", ttftP99); best != "" {
			l["trees24_best"], l["trees24_ttft_p99_vs_best"] = best, ttft.Median/p99
		}
	}
	l.Spread("shifts2_tokens_vs_blind", rep.Ratio("shifts2", s.Own, blindName, tokens))
	if best := rep.bestCap("shifts2"); best != nil {
		l.Spread("shifts2_tokens_vs_outstanding", rep.Ratio("shifts2", s.Own, best.Name(), tokens))
	}
	l.Spread("crowd24_tokens_vs_blind", rep.Ratio("crowd24", s.Own, blindName, tokens))
	l.Spread("crowd24_ttft_p90_vs_blind", rep.Ratio("crowd24", s.Own, blindName, ttftP90))
	rep.limits(l, "limit_tokens_vs_blind", "trees2", simulatedBlind, tokens, true)
	rep.limits(l, "limit_tokens_vs_outstanding", "trees2", simulatedOutstanding, tokens, true)
	rep.limits(l, "limit_ttft_p90_vs_blind", "trees2", simulatedBlind, ttftP90, false)
	rep.limits(l, "limit_trees24_cached", "trees24", "", cached, true)
	l["target_met"] = l.Meets(targets)
	return l
}

// limits adds the best median of a figure over the limits, the highest or the lowest, over that of what it is compared
// with, if anything; nothing if these were not played.
func (rep *report) limits(l bench.Line, name, load, against string, of func(*result) float64, most bool) {
	over := 1.0
	if against != "" {
		over = bench.SpreadBy(rep.Of(load, against), of).Median
	}
	for _, c := range rep.contenders {
		if m := rep.Median(load, c.Name(), of); strings.HasPrefix(c.Name(), limitPrefix) && m != nil && over != 0 {
			l.Worst(name, *m/over, most)
		}
	}
}

// bestCap returns push: outstanding with the cap that has the most tokens a second in the median, or nil if none was
// played.
func (rep *report) bestCap(load string) (best *contender) {
	most := 0.0
	for i := range rep.contenders {
		c := &rep.contenders[i]
		if rate := bench.SpreadBy(rep.Of(load, c.Name()), tokens).Median; c.cap > 0 && rate > most {
			best, most = c, rate
		}
	}
	return best
}

// lowest returns which of the others has the lowest median of a figure, and that; "" if there are none.
func (rep *report) lowest(load string, of func(*result) float64) (name string, figure float64) {
	figure = math.Inf(1)
	for _, c := range rep.contenders {
		if c.Name() == rep.settings.Own || c.Added {
			continue
		}
		if m := rep.Median(load, c.Name(), of); m != nil && *m < figure {
			name, figure = c.Name(), *m
		}
	}
	return name, figure
}
