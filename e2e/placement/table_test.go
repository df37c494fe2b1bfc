package placement

import (
	"cmp"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/traffic"
	"github.com/warmgate/warmgate/internal/mooncake"
)

var (
	table = flag.Bool("table", false, "compare all policies on all workloads and loads")
	trace = flag.String("replay", "", "also replay this trace in Mooncake's form, its beginning and its middle")
	seeds = flag.Int("seeds", 3, "how many runs each figure is the median of")
	only  = flag.String("only", "", "the workloads, separated by commas; all by default")
)

// contender is a policy to compare.
type contender struct {
	name  string
	maker func() Maker
}

// cell is what a policy does with a workload at a load: medians.
type cell struct {
	name string
	Result
}

// TestTable prints the table of all cells: prefix_cache, the best of the sweep of credits with exact knowledge, and the
// best of the others, which both are those with the lowest mean TTFT.
func TestTable(t *testing.T) {
	if !*table {
		t.Skip("-table is not given")
	}
	fmt.Println("| workload, load | prefix_cache: cached, TTFT mean, p99, max/mean | exact | best other |")
	fmt.Println("| --- | --- | --- | --- |")
	for _, w := range tableWorkloads(t) {
		for _, load := range w.loads() {
			prepared, scale := prepareAll(&w)
			at := load * scale
			ours := medians(prepared, at, contender{"", func() Maker { return Warm("prefix_cache", DefaultCredit) }})
			limit, other := best(prepared, at, exacts()), best(prepared, at, others())
			fmt.Printf("| %s, %g | %v | %v | %v |\n", w.Name, load, ours, limit, other)
		}
	}
}

// loads returns the loads at which a workload is played. One user is one user. Of few users some loads are as many as
// the load before, and so the same run.
func (w *Workload) loads() []float64 {
	if w.Full == 1 {
		return []float64{1}
	}
	var out []float64
	for _, load := range []float64{0.5, 0.8, 1, 1.5} {
		if n := len(out); w.Full > 0 && n > 0 && w.users(load) == w.users(out[n-1]) {
			continue
		}
		out = append(out, load)
	}
	return out
}

func tableWorkloads(t *testing.T) []Workload {
	all := Workloads()
	for i, name := range []string{"trace", "trace, middle"} {
		if *trace == "" {
			break
		}
		const middle, long = 3500, 6000 // so long that servers evict, and their retention is learned
		lines, err := mooncake.Read(*trace)
		if err != nil {
			t.Fatal(err)
		}
		from := min(i*middle, len(lines)-1)
		lines = lines[from:min(from+long, len(lines))]
		fast, slow := replay(name, lines), replay(name+", 8 slots", lines)
		slow.Server.MaxNumSeqs, slow.Server.Tuning = slots().Server.MaxNumSeqs, slots().Server.Tuning
		all = append(all, fast, slow)
	}
	return slices.DeleteFunc(all, func(w Workload) bool {
		return *only != "" && !slices.Contains(strings.Split(*only, ","), w.Name)
	})
}

// replay is the workload of a trace, an open loop at its own pace.
func replay(name string, trace []mooncake.Request) Workload {
	return Workload{
		Name: name, Servers: 8, Server: traffic.Engine(16, 32<<10),
		Scripts: func(seed uint64) []traffic.Script {
			return traffic.Replay(trace, seed, traffic.TraceScale)
		},
	}
}

// prepareAll returns a workload with its seeds, and what a load of 1 is: for an open loop, where all that comes is just
// served.
func prepareAll(w *Workload) (prepared []*Prepared, scale float64) {
	for seed := range *seeds {
		prepared = append(prepared, w.Prepare(uint64(seed+1)))
	}
	return prepared, prepared[0].Capacity()
}

func exacts() (out []contender) {
	for _, credit := range []float64{0.5, 1, 2, 4, 8, 16} {
		out = append(out, contender{fmt.Sprint(credit), func() Maker { return Exact(credit) }})
	}
	return out
}

func others() []contender {
	return []contender{
		{"round_robin", RoundRobin},
		{"least_request", LeastRequest},
		{"global_least_request", FewestRequests},
		{"ring_hash", RingHash},
	}
}

func best(prepared []*Prepared, load float64, of []contender) cell {
	var cells []cell
	for _, c := range of {
		cells = append(cells, medians(prepared, load, c))
	}
	return slices.MinFunc(cells, func(a, b cell) int { return cmp.Compare(a.TTFT, b.TTFT) })
}

func medians(prepared []*Prepared, load float64, c contender) cell {
	var all []Result
	for _, p := range prepared {
		all = append(all, p.Run(load, c.maker()))
	}
	return cell{c.name, Result{
		Cached: median(all, func(r Result) float64 { return r.Cached }),
		TTFT:   median(all, func(r Result) time.Duration { return r.TTFT }),
		P99:    median(all, func(r Result) time.Duration { return r.P99 }),
		Uneven: median(all, func(r Result) float64 { return r.Uneven }),
	}}
}

func median[T cmp.Ordered](all []Result, of func(Result) T) T {
	var values []T
	for _, r := range all {
		values = append(values, of(r))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func (c cell) String() string {
	ms := func(d time.Duration) float64 { return d.Seconds() * 1e3 }
	text := fmt.Sprintf("%.3f %.1f %.0f %.2f", c.Cached, ms(c.TTFT), ms(c.P99), c.Uneven)
	return strings.TrimSpace(c.name + " " + text)
}
