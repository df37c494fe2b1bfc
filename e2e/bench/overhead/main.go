// Command overhead measures what Warmgate costs inside Envoy: Envoy's own CPU time per request, requests per second and
// latency, in paired runs of
//
//	none      the gateway without a plugin
//	readbody  a Go plugin that does nothing but read the request body
//	tokens    Warmgate, unit: tokens, which reads and scans the body
//	requests  Warmgate, unit: requests, the default, which needs no body
//	prefix    Warmgate, prefix_cache, which also cuts the prompt into blocks and looks for it
//
// over request bodies and cluster sizes. All gateways stay up; a round measures each of them once, in rotating order.
// Afterwards Warmgate serves many requests while the memory of its VMs is watched.
//
// The last line of the output is one JSON object.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
)

type settings struct {
	rounds      int
	bodies      []int // KiB
	endpoints   []int
	connections int
	cpu         time.Duration // CPU time to spend on one measurement, roughly
	memory      int           // requests of the memory test; 0 = none
	memoryBody  int           // KiB
	markdown    string
}

func parse() (settings, error) {
	s := settings{rounds: 5, connections: 8, memoryBody: 64}
	var bodies, endpoints string
	var quick bool
	flag.BoolVar(&quick, "quick", false, "one cell of the matrix and a short memory test: a few minutes less")
	flag.IntVar(&s.rounds, "rounds", s.rounds, "paired rounds")
	flag.StringVar(&bodies, "bodies", "1,16,256", "request bodies, KiB")
	flag.StringVar(&endpoints, "endpoints", "8,64,512", "cluster sizes")
	flag.IntVar(&s.connections, "connections", s.connections, "client connections")
	flag.DurationVar(&s.cpu, "cpu", 1500*time.Millisecond, "Envoy CPU time that one measurement takes, roughly")
	flag.IntVar(&s.memory, "memory", 100_000, "requests of the memory test; 0 skips it")
	flag.IntVar(&s.memoryBody, "memory-body", s.memoryBody, "request body of the memory test, KiB")
	flag.StringVar(&s.markdown, "markdown", "", "also write the tables to this file, as Markdown")
	flag.Parse()
	if quick {
		bodies, endpoints, s.memory = "16", "64", 20_000
	}
	var err, err2 error
	s.bodies, err = numbers(bodies)
	s.endpoints, err2 = numbers(endpoints)
	return s, errors.Join(err, err2)
}

func numbers(list string) ([]int, error) {
	var out []int
	for _, field := range strings.Split(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is not a list of positive numbers", list)
		}
		out = append(out, n)
	}
	return out, nil
}

func main() {
	s, err := parse()
	bench.Main("overhead", func(ctx context.Context) error {
		if err != nil {
			return err
		}
		return run(ctx, s)
	})
}

func run(ctx context.Context, s settings) error {
	up, err := startUpstream(slices.Max(s.endpoints))
	if err != nil {
		return err
	}
	defer up.Close()
	variants, sizes, err := startVariants(ctx, up)
	defer func() {
		for _, v := range variants {
			_ = v.gateway.Stop() // the process ends with this one in any case
		}
	}()
	if err != nil {
		return err
	}
	rep := &report{settings: s, wasm: sizes}
	for _, n := range s.endpoints {
		if err := rep.measureCluster(ctx, variants, up, n); err != nil {
			return err
		}
	}
	if s.memory > 0 {
		if rep.memory, err = watchMemory(ctx, variants, s); err != nil {
			return err
		}
	}
	return rep.publish(os.Stdout)
}

// measureCluster fills the cells of one cluster size.
func (rep *report) measureCluster(ctx context.Context, variants []*variant, up *upstream, endpoints int) error {
	for _, v := range variants {
		if err := v.setEndpoints(ctx, up, endpoints); err != nil {
			return err
		}
	}
	for _, kib := range rep.settings.bodies {
		c := &cell{kib: kib, endpoints: endpoints, runs: map[string][]measurement{}}
		request := chatRequest(kib << 10)
		count, err := calibrate(ctx, variants, rep.settings, request)
		if err != nil {
			return err
		}
		for round := range rep.settings.rounds {
			for _, i := range bench.Order(len(variants), round) {
				m, err := variants[i].measure(ctx, rep.settings.connections, count, request)
				if err != nil {
					return err
				}
				c.runs[variants[i].name] = append(c.runs[variants[i].name], m)
			}
		}
		fmt.Println(c.progress())
		rep.cells = append(rep.cells, c)
	}
	return nil
}
