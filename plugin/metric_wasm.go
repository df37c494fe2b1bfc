//go:build wasm

package main

import "unsafe"

// The SDK's own calls for statistics format their failures with fmt, which would be a twelfth of the artifact.

//go:wasmimport env proxy_define_metric
func proxyDefineMetric(kind uint32, name unsafe.Pointer, size int32, id unsafe.Pointer) uint32

//go:wasmimport env proxy_increment_metric
func proxyIncrementMetric(id uint32, n int64) uint32

//go:wasmimport env proxy_record_metric
func proxyRecordMetric(id uint32, n uint64) uint32

// defineMetric returns the id of a statistic. It panics, as all three do, when the gateway refuses: only a mistake here
// can make it.
func defineMetric(kind uint32, name string) uint32 {
	var id uint32
	if proxyDefineMetric(kind, unsafe.Pointer(unsafe.StringData(name)), int32(len(name)), unsafe.Pointer(&id)) != 0 {
		panic("the gateway refused to define a statistic")
	}
	return id
}

// addMetric adds to a counter or a gauge.
func addMetric(id uint32, n int64) {
	if proxyIncrementMetric(id, n) != 0 {
		panic("the gateway refused to add to a statistic")
	}
}

// recordMetric sets a gauge, or gives a value to a histogram.
func recordMetric(id uint32, n uint64) {
	if proxyRecordMetric(id, n) != 0 {
		panic("the gateway refused a value of a statistic")
	}
}
