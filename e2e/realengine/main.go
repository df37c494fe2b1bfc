// Command realengine compares the simulated server, and the plugin's policies, with real engines.
//
// It makes a small random-weight model, starts two servers of an engine (llama.cpp or vLLM, from Python wheels, no GPU)
// and sends one of them single requests to learn how fast this machine prefills and decodes. With those times it sets
// up simulated servers (package vllmsim), sends the same requests to both kinds and compares what they did: first
// tokens with a cold, half cached and cached prompt, decode times, queues, cached tokens and counters. Then it does the
// same through Envoy and the plugin, with two servers of each kind behind it. It prints a table and fails if the two
// kinds do not behave alike.
//
// Times measured on a machine with other work are unreliable, so a comparison that fails is repeated, fit included, up
// to -tries times.
//
// At last the plugin balances the real servers by their own metrics, and by what they have cached, and the engines'
// counters show whether requests went where they had to.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/warmgate/warmgate/e2e/lab"
)

// policyPrompts is the first set of prompts of the trials of the policies, far from those of the comparisons.
const policyPrompts = 1000

// errUnlike is the error of a comparison that has failed.
var errUnlike = errors.New("the simulated servers do not behave like the real ones")

func main() {
	name := flag.String("engine", "llama.cpp", "the engine: llama.cpp or vllm")
	short := flag.Bool("direct", false, "leave out all that goes through Envoy and the plugin")
	only := flag.Bool("policies", false, "leave out the comparisons, which take most of the time")
	tries := flag.Int("tries", 3, "comparisons, and trials of each policy, until one has to hold")
	cache := flag.String("cache", ".cache/realengine", "folder of the Python environments and the models")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	e, err := engineOf(*name)
	if err == nil {
		err = lab.Try(func() { run(ctx, e, *cache, plan{tries: *tries, compare: !*only, gateway: !*short}) })
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "realengine:", err)
		os.Exit(1)
	}
}

// plan is what a run does.
type plan struct {
	tries            int
	compare, gateway bool
}

// run sets up the servers, compares until a comparison succeeds and then tries the policies.
func run(ctx context.Context, e engine, cache string, p plan) {
	env := prepare(ctx, e, cache)
	began := time.Now()
	real := lab.Must(startEngines(ctx, e, env, 2))
	defer real.stop()
	fmt.Printf("two servers of %s answer after %.0f s\n", e.name, time.Since(began).Seconds())
	if p.compare {
		compareUntilAlike(ctx, e, real, p.tries, p.gateway)
	}
	if p.gateway {
		tryPolicies(ctx, e, real, policyPrompts, p.tries)
	}
}

// tryPolicies makes all trials.
func tryPolicies(ctx context.Context, e engine, list servers, prompts uint64, tries int) {
	t := &trial{servers: list, prompts: prompts}
	steps := []func(context.Context){t.prefixCache, t.sharedPrompt, t.endpointMetrics}
	if e.lora {
		steps = append(steps, t.adapters)
	}
	if e.orca {
		steps = append(steps, t.loadReports)
	}
	t.play(ctx, e.name, tries, steps...)
}

// compareUntilAlike makes comparisons until one holds.
func compareUntilAlike(ctx context.Context, e engine, real servers, tries int, throughGateway bool) {
	began := time.Now()
	for try := 1; ; try++ {
		alike := compare(ctx, e, real, uint64(try), throughGateway)
		fmt.Printf("\ncomparison %d: alike: %v; %.0f s since the start, load average of %d CPUs %s\n",
			try, alike, time.Since(began).Seconds(), runtime.NumCPU(), machineLoad())
		if alike {
			return
		}
		if try >= tries {
			lab.Check(errUnlike)
		}
	}
}

// compare makes one comparison and prints it. Each try has prompts of its own.
func compare(ctx context.Context, e engine, real servers, try uint64, throughGateway bool) bool {
	alike := comparePart(ctx, e, "one server, direct", real, func(list servers, prompts uint64) target {
		return target{list[0].url, list[:1], prompts}
	}, 4*try)
	if !throughGateway {
		return alike
	}
	g := startGateway(ctx, real)
	defer g.Stop()
	return comparePart(ctx, e, "two servers, through Envoy and the plugin", real,
		func(list servers, prompts uint64) target {
			lab.Check(g.PushEndpoints(ctx, endpoints(list)))
			return target{g.URL(), list, prompts}
		}, 4*try+2) && alike
}

// comparePart fits the simulation to the engine as it is now, measures both and prints the comparison. reach returns
// where to send requests for servers.
func comparePart(ctx context.Context, e engine, title string, real servers,
	reach func(list servers, prompts uint64) target, prompts uint64,
) (alike bool) {
	fit := calibrate(ctx, real[0], e.block, prompts)
	fmt.Printf("\n%s, %d slots: prompt %.1f ms + %.3f ms a token, decode step %.2f ms + %.2f ms a sequence\n",
		e.name, slots, fit.PrefillOverheadMS, fit.PrefillTokenMS, fit.DecodeStepMS, fit.DecodeSeqMS)
	sim := startSimulated(fit, len(real), e.block)
	defer sim.stop()
	var r [2]report
	for i, list := range []servers{real, sim} {
		r[i] = measure(ctx, reach(list, prompts+1))
	}
	return printVerdict(os.Stdout, title, r[0], r[1])
}

// machineLoad returns how busy the machine has been according to the kernel, for the reader of a failed comparison.
func machineLoad() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	one, _, _ := strings.Cut(string(text), " ")
	return one
}
