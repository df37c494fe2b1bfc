// Command realengine holds the simulated server against a real engine.
//
// It makes a small random-weight model, starts llama.cpp servers (a Python wheel, no GPU) and sends them single
// requests to learn how fast this machine prefills and decodes. With those times it sets up simulated servers (package
// vllmsim), sends the same requests to both kinds and compares what they did: first tokens with a cold, half cached and
// cached prompt, decode times, queues, cached tokens and counters. Then it does the same through Envoy and the plugin,
// with two servers of each kind behind it. It prints a table and fails if the two kinds do not behave alike.
//
// Times on a machine that has other things to do are not to be trusted, so a comparison that fails is made again, fit
// included, up to -tries times.
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

// How many requests a server runs at once, how long each may be in tokens, and the tokens of a simulated KV block.
const (
	slots      = 4
	slotTokens = 8192
	blockSize  = 16
)

// errUnlike says that the comparison has failed.
var errUnlike = errors.New("the simulated servers do not behave like the real ones")

func main() {
	short := flag.Bool("direct", false, "leave out the part through Envoy and the plugin")
	tries := flag.Int("tries", 3, "comparisons until one has to hold")
	cache := flag.String("cache", ".cache/realengine", "folder of the Python environment and the model")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *cache, *tries, !*short); err != nil {
		fmt.Fprintln(os.Stderr, "realengine:", err)
		os.Exit(1)
	}
}

// run sets up the engines and compares until a comparison holds.
func run(ctx context.Context, cache string, tries int, throughGateway bool) error {
	began := time.Now()
	env, err := prepare(ctx, cache)
	if err != nil {
		return err
	}
	real, err := startEngines(ctx, env, 2)
	if err != nil {
		return err
	}
	defer real.stop()
	for try := 1; ; try++ {
		alike, err := compare(ctx, real, uint64(try), throughGateway)
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
func compare(ctx context.Context, real servers, try uint64, throughGateway bool) (alike bool, err error) {
	alike, err = comparePart(ctx, "one server, direct", real, direct, 4*try)
	if err != nil || !throughGateway {
		return alike, err
	}
	gateway, stop, err := startGateway(ctx, real)
	if err != nil {
		return false, err
	}
	defer stop()
	ok, err := comparePart(ctx, "two servers, through Envoy and the plugin", real, gateway, 4*try+2)
	return alike && ok, err
}

// route brings servers into reach: it returns where to send requests for them.
type route func(ctx context.Context, list servers, prompts uint64) (target, error)

// direct leads to the first server.
func direct(_ context.Context, list servers, prompts uint64) (target, error) {
	return target{list[0].url, list[:1], prompts}, nil
}

// comparePart fits the simulation to the engine as it is now, measures both over the route and prints the comparison.
func comparePart(ctx context.Context, title string, real servers, to route, prompts uint64) (alike bool, err error) {
	fit, err := calibrate(ctx, real[0], prompts)
	if err != nil {
		return false, err
	}
	fmt.Printf("\nllama.cpp, %d slots: prompt %.1f ms + %.3f ms a token, decode step %.2f ms + %.2f ms a sequence\n",
		slots, fit.PrefillOverheadMS, fit.PrefillTokenMS, fit.DecodeStepMS, fit.DecodeSeqMS)
	sim, err := startSimulated(fit, len(real))
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

// machineLoad is what the kernel says about how busy the machine has been, for the reader of a failed comparison.
func machineLoad() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	one, _, _ := strings.Cut(string(text), " ")
	return one
}
