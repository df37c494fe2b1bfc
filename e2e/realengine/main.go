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
)

// How many requests a server runs at once, and how long each may be in tokens.
const (
	slots      = 4
	slotTokens = 8192
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
		err = run(ctx, e, *cache, plan{tries: *tries, compare: !*only, gateway: !*short})
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
func run(ctx context.Context, e engine, cache string, p plan) error {
	env, err := prepare(ctx, e, cache)
	if err != nil {
		return err
	}
	began := time.Now()
	real, err := startEngines(ctx, e, env, 2)
	if err != nil {
		return err
	}
	defer real.stop()
	fmt.Printf("two servers of %s answer after %.0f s\n", e.name, time.Since(began).Seconds())
	if p.compare {
		if err := compareUntilAlike(ctx, e, real, p.tries, p.gateway); err != nil {
			return err
		}
	}
	if !p.gateway {
		return nil
	}
	return tryPolicies(ctx, e, real, policyPrompts, p.tries)
}

// compareUntilAlike makes comparisons until one holds.
func compareUntilAlike(ctx context.Context, e engine, real servers, tries int, throughGateway bool) error {
	began := time.Now()
	for try := 1; ; try++ {
		alike, err := compare(ctx, e, real, uint64(try), throughGateway)
		if err != nil {
			return err
		}
		fmt.Printf("\ncomparison %d: alike: %v; %.0f s since the start, load average of %d CPUs %s\n",
			try, alike, time.Since(began).Seconds(), runtime.NumCPU(), machineLoad())
		if alike {
			return nil
		}
		if try >= tries {
			return errUnlike
		}
	}
}

// compare makes one comparison and prints it. Each try has prompts of its own.
func compare(ctx context.Context, e engine, real servers, try uint64, throughGateway bool) (alike bool, err error) {
	alike, err = comparePart(ctx, e, "one server, direct", real, direct, 4*try)
	if err != nil || !throughGateway {
		return alike, err
	}
	gateway, stop, err := startGateway(ctx, real)
	if err != nil {
		return false, err
	}
	defer stop()
	ok, err := comparePart(ctx, e, "two servers, through Envoy and the plugin", real, gateway, 4*try+2)
	return alike && ok, err
}

// route brings servers into reach: it returns where to send requests for them.
type route func(ctx context.Context, list servers, prompts uint64) (target, error)

// direct leads to the first server.
func direct(_ context.Context, list servers, prompts uint64) (target, error) {
	return target{list[0].url, list[:1], prompts}, nil
}

// comparePart fits the simulation to the engine as it is now, measures both over the route and prints the comparison.
func comparePart(ctx context.Context, e engine, title string, real servers, to route,
	prompts uint64,
) (alike bool, err error) {
	fit, err := calibrate(ctx, real[0], e.block, prompts)
	if err != nil {
		return false, err
	}
	fmt.Printf("\n%s, %d slots: prompt %.1f ms + %.3f ms a token, decode step %.2f ms + %.2f ms a sequence\n",
		e.name, slots, fit.PrefillOverheadMS, fit.PrefillTokenMS, fit.DecodeStepMS, fit.DecodeSeqMS)
	sim, err := startSimulated(fit, len(real), e.block)
	if err != nil {
		return false, err
	}
	defer sim.stop()
	var reports [2]report
	for i, list := range []servers{real, sim} {
		t, err := to(ctx, list, prompts+1)
		if err != nil {
			return false, err
		}
		if reports[i], err = measure(ctx, t); err != nil {
			return false, err
		}
	}
	return printVerdict(os.Stdout, title, reports[0], reports[1]), nil
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
