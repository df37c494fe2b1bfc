//go:build wasm

package main

import (
	"time"
	"unsafe"
)

//go:wasmimport wasi_snapshot_preview1 clock_time_get
func clockTimeGet(clock uint32, precision uint64, out unsafe.Pointer) uint32

// monotonic reads the host's monotonic clock: Go's counts from the start of each VM, and the VMs of a process must
// agree.
func monotonic() time.Duration {
	const clockMonotonic = 1
	var ns uint64
	clockTimeGet(clockMonotonic, 1, unsafe.Pointer(&ns))
	return time.Duration(ns)
}
