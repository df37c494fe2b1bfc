// Package overhead measures what Warmgate costs inside Envoy: Envoy's own CPU time per request, requests per second and
// latency, in paired runs of
//
//	none      the gateway without a plugin
//	readbody  a Go plugin that does nothing but read the request body
//	tokens    Warmgate, unit: tokens, which reads and scans the body
//	requests  Warmgate, unit: requests, the default, which needs no body
//	prefix    Warmgate, prefix_cache, which also cuts the prompt into blocks and looks for it
//
// over request bodies and cluster sizes. All gateways stay up; a round measures each of them once, in rotating order.
//
// Further parts, in paired rounds as well: which share of what prefix costs is JSON, hashing, and choosing with its
// host calls; what bodies cost that were made to cost much; what each chunk of a streaming answer costs, of which
// prefix reads the end. And Warmgate serves many requests while the memory of its VMs is watched.
package overhead

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
)

type settings struct {
	bench.Settings
	bodies      bench.List[int] // KiB
	endpoints   bench.List[int]
	connections int
	cpu         time.Duration // CPU time to spend on one measurement, roughly
	memory      int           // requests of the memory test; 0 = none
	memoryBody  int           // KiB
	parts       []string
}

// The parts of the benchmark, in the order in which they are run.
var allParts = []string{"matrix", "prompts", "hostile", "memory", "chunks"}

func parse() (settings, error) {
	s := settings{bodies: []int{1, 16, 64, 256}, endpoints: []int{8, 64, 512}, connections: 8, memoryBody: 64}
	var parts string
	var quick bool
	flag.BoolVar(&quick, "quick", false, "one cell of the matrix and a short memory test: a minute or two; -parts "+
		"adds others, of one body each")
	s.RoundsFlags(5)
	flag.Var(&s.bodies, "bodies", "request bodies, KiB")
	flag.Var(&s.endpoints, "endpoints", "cluster sizes")
	flag.IntVar(&s.connections, "connections", s.connections, "client connections")
	flag.DurationVar(&s.cpu, "cpu", 1500*time.Millisecond, "Envoy CPU time that one measurement takes, roughly")
	flag.IntVar(&s.memory, "memory", 100_000, "requests of the memory test; 0 skips it")
	flag.IntVar(&s.memoryBody, "memory-body", s.memoryBody, "request body of the memory test, KiB")
	bench.OnlyFlag(&parts, "parts", allParts)
	flag.Parse()
	if quick {
		parts = cmp.Or(parts, "matrix,memory")
		s.bodies, s.endpoints, s.memory = []int{16}, []int{64}, 20_000
	}
	var err error
	s.parts, err = bench.Named(allParts, parts, func(part string) string { return part })
	return s, err
}

func (s *settings) has(part string) bool { return slices.Contains(s.parts, part) }

// Benchmark is to be played.
var Benchmark = bench.New("overhead", parse, run)

func run(ctx context.Context, s settings) error {
	up, err := bench.StartUpstream(max(partEndpoints, slices.Max(s.endpoints)))
	if err != nil {
		return err
	}
	defer up.Close()
	variants, sizes, err := startVariants(ctx, up, s.has("prompts"))
	defer func() {
		for _, v := range variants {
			_ = v.gateway.Stop() // the process ends with this one in any case
		}
	}()
	if err != nil {
		return err
	}
	st := &stage{&report{settings: s, wasm: sizes}, variants, up}
	for _, part := range allParts {
		if !s.has(part) {
			continue
		}
		if err := st.measure(ctx, part); err != nil {
			return fmt.Errorf("%s: %w", part, err)
		}
	}
	return st.rep.publish(os.Stdout)
}

// partEndpoints is how many endpoints there are in the parts that are no matrix.
const partEndpoints = 64

// stage is all that is running.
type stage struct {
	rep      *report
	variants []*variant
	up       *bench.Upstream
}

// measure fills in a part of the report.
func (st *stage) measure(ctx context.Context, part string) (err error) {
	s, rep := st.rep.settings, st.rep
	switch part { // these two set endpoints of their own
	case "matrix":
		return st.measureMatrix(ctx)
	case "chunks":
		rep.chunks, err = st.measureChunks(ctx)
		return err
	}
	if err := setEndpoints(ctx, st.variants, endpoints(st.up, partEndpoints)); err != nil {
		return err
	}
	switch part {
	case "prompts":
		rep.prompts, err = st.measurePrompts(ctx)
	case "hostile":
		rep.hostile, err = st.measureHostile(ctx)
	case "memory":
		if s.memory > 0 {
			rep.memory, err = watchMemory(ctx, st.variants, s)
		}
	}
	return err
}

// named returns the variants of the given names, in their order.
func (st *stage) named(names ...string) []*variant {
	out := make([]*variant, len(names))
	for i, name := range names {
		out[i] = st.variants[slices.IndexFunc(st.variants, func(v *variant) bool { return v.name == name })]
	}
	return out
}

// rounds measures each of the variants once a round, in rotating order.
func (st *stage) rounds(variants []*variant,
	measure func(*variant) (measurement, error),
) (map[string][]measurement, error) {
	results, err := bench.Rounds(st.rep.settings.Rounds, len(variants), nil, func(_, i int) (measurement, error) {
		return measure(variants[i])
	})
	runs := map[string][]measurement{}
	for i := range results {
		runs[variants[i].name] = results[i]
	}
	return runs, err
}

// measureBodies plays requests with bodies of a size.
func (st *stage) measureBodies(ctx context.Context, variants []*variant, kib int) (map[string][]measurement, error) {
	s, request := st.rep.settings, chatRequest(kib<<10)
	count, err := calibrate(ctx, variants, s, request)
	if err != nil {
		return nil, err
	}
	return st.rounds(variants, func(v *variant) (measurement, error) {
		return v.measure(ctx, s.connections, count, request)
	})
}

// measureMatrix plays bodies of all sizes on clusters of all sizes.
func (st *stage) measureMatrix(ctx context.Context) error {
	for _, n := range st.rep.settings.endpoints {
		if err := setEndpoints(ctx, st.variants, endpoints(st.up, n)); err != nil {
			return err
		}
		for _, kib := range st.rep.settings.bodies {
			runs, err := st.measureBodies(ctx, st.named(names...), kib)
			if err != nil {
				return err
			}
			c := &cell{kib: kib, endpoints: n, runs: runs}
			st.rep.cells = append(st.rep.cells, c)
			fmt.Println(st.rep.table().Last(len(names)))
		}
	}
	return nil
}
