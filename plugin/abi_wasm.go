//go:build wasm

package main

import "unsafe"

// Host calls that the plugin makes without the SDK: its calls for statistics make their errors with fmt, which would be
// a twentieth of the artifact, and it has no clock.
//
// A string is passed as its address and its length.

//go:wasmimport env proxy_define_metric
func proxyDefineMetric(kind uint32, name string, id unsafe.Pointer) status

//go:wasmimport env proxy_increment_metric
func proxyIncrementMetric(id uint32, n int64) status

//go:wasmimport env proxy_record_metric
func proxyRecordMetric(id uint32, n uint64) status

//go:wasmimport wasi_snapshot_preview1 clock_time_get
func clockTimeGet(clock uint32, precision uint64, out unsafe.Pointer) uint32
