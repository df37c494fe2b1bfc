// Command realengine holds the simulated server against a real engine.
//
// It makes a small random-weight model, starts llama.cpp servers (a Python wheel, no GPU) and sends them single requests to
// learn how fast this machine prefills and decodes. With those times it sets up simulated servers (package vllmsim), sends the
// same requests to both kinds and compares what they did: first tokens with a cold, half cached and cached prompt, decode
// times, queues, cached tokens and counters. Then it does the same through Envoy and the plugin, with two servers of
// each kind behind it. It prints a table and fails if the two kinds do not behave alike.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// slots and slotTokens are how many requests an engine runs at once and how long each may be.
const (
	slots      = 4
	slotTokens = 8192
)

// errUnlike says that the comparison has failed.
var errUnlike = errors.New("the simulated servers do not behave like the real ones")

func main() {
	direct := flag.Bool("direct", false, "leave out the part through Envoy and the plugin")
	cache := flag.String("cache", ".cache/realengine", "folder of the Python environment and the model")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *cache, !*direct); err != nil {
		fmt.Fprintln(os.Stderr, "realengine:", err)
		os.Exit(1)
	}
}

// run makes the comparison and prints it.
func run(ctx context.Context, cache string, throughGateway bool) error {
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
	fit, err := calibrate(ctx, real[0])
	if err != nil {
		return err
	}
	fmt.Printf("engine: llama.cpp, %d slots; prompt %.1f ms + %.3f ms a token, decode step %.2f ms + %.2f ms a sequence\n",
		slots, fit.PrefillOverheadMS, fit.PrefillTokenMS, fit.DecodeStepMS, fit.DecodeSeqMS)
	sim, err := startSimulated(fit, 2)
	if err != nil {
		return err
	}
	defer sim.stop()
	alike, err := compareDirect(ctx, real, sim)
	if err != nil {
		return err
	}
	if throughGateway {
		ok, err := compareThroughGateway(ctx, real, sim)
		if err != nil {
			return err
		}
		alike = alike && ok
	}
	fmt.Printf("\n%.0f s\n", time.Since(began).Seconds())
	if !alike {
		return errUnlike
	}
	return nil
}

// compareDirect measures one server of each kind without anything between.
func compareDirect(ctx context.Context, real, sim servers) (alike bool, err error) {
	var reports [2]report
	for i, s := range []servers{real, sim} {
		if reports[i], err = measure(ctx, target{url: s[0].url, servers: s[:1]}); err != nil {
			return false, err
		}
	}
	return printVerdict(os.Stdout, "one server, direct", reports[0], reports[1]), nil
}
