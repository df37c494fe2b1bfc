package placement

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/placement/decision"
	"github.com/warmgate/warmgate/e2e/harness"
)

// decisionTimes is what the plugin's code takes for a request, in microseconds of CPU time: see decision.Measure.
type decisionTimes struct {
	micros      float64       // natively, with the metrics of engines: the least of some runs
	wasm        *bench.Spread // in V8, without; nil where it is not there
	wasmMetrics *bench.Spread // with these
}

// wasmRounds is how often it is measured in V8.
const wasmRounds = 9

// decide measures what a request takes natively. In the gateway the code is WebAssembly, which takes longer, and hashes
// the prompt's text besides.
func decide(seed uint64) (*decisionTimes, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // garbage collection is counted where it is caused
	d := &decisionTimes{micros: math.Inf(1)}
	for range 3 {
		micros, err := decision.Measure(seed, true, used)
		if err != nil {
			return nil, err
		}
		d.micros = min(d.micros, micros)
	}
	return d, nil
}

// inV8 measures the same in the engine in which gateways run plugins, if Node.js is there to run it: its own release of
// V8, which differs from Envoy's.
func (d *decisionTimes) inV8(ctx context.Context, seed uint64, rounds int) error {
	node, err := exec.LookPath("node")
	if errors.Is(err, exec.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	module, err := harness.BuildWasm(ctx, "./e2e/bench/placement/decision/wasm")
	if err != nil {
		return err
	}
	root, err := harness.Root()
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, node, "--no-warnings",
		filepath.Join(root, "e2e/bench/placement/decision/run.mjs"), module, strconv.FormatUint(seed, 10),
		strconv.Itoa(rounds)).Output()
	if err != nil {
		return fmt.Errorf("measuring in Node.js: %w", err)
	}
	var without, with []float64
	for line := range strings.Lines(string(out)) {
		var a, b float64
		if _, err := fmt.Sscan(line, &a, &b); err != nil {
			return fmt.Errorf("measuring in Node.js: %q: %w", line, err)
		}
		without, with = append(without, a), append(with, b)
	}
	d.wasm, d.wasmMetrics = bench.SpreadIfAny(without), bench.SpreadIfAny(with)
	return nil
}

// used returns the CPU time of the process so far.
func used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // the arguments are valid
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
