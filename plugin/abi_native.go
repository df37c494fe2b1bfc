//go:build !wasm

package main

import "unsafe"

// Where there is no gateway, as in tests of this package, these calls have no effect.

func proxyDefineMetric(uint32, string, unsafe.Pointer) status { return statusOK }

func proxyIncrementMetric(uint32, int64) status { return statusOK }

func proxyRecordMetric(uint32, uint64) status { return statusOK }

func clockTimeGet(uint32, uint64, unsafe.Pointer) uint32 { return 0 }
