//go:build wasip1

// Command wasm is the measurement as a module, for the engine that gateways run plugins in.
package main

import (
	"time"

	"github.com/warmgate/warmgate/e2e/bench/placement/decision"
)

func main() {}

// clockTime is WASI's clock_time_get.
//
//go:wasmimport wasi_snapshot_preview1 clock_time_get
func clockTime(clock uint32, precision uint64, at *uint64) uint32

// threadTime is the clock of CPU time of the thread: compilers run in others.
const threadTime = 3

// used returns the CPU time so far.
func used() (at time.Duration) {
	var nanos uint64
	if clockTime(threadTime, 1, &nanos) != 0 {
		panic("the host has no clock of CPU time")
	}
	return time.Duration(nanos)
}

// measure returns what a request takes in microseconds.
//
//go:wasmexport measure
func measure(seed uint64, metrics uint32) float64 {
	micros, err := decision.Measure(seed, metrics != 0, used)
	if err != nil {
		panic(err)
	}
	return micros
}
