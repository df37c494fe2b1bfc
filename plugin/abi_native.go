//go:build !wasm

package main

import "unsafe"

// Where there is no gateway, as in tests of this package, nothing is known and calls have no effect.

func proxyLog(uint32, string) status { return statusNone }

func proxyGetProperty(string, unsafe.Pointer, unsafe.Pointer) status { return statusNone }

func proxySetProperty(string, string) status { return statusNone }

func proxyGetHeader(uint32, string, unsafe.Pointer, unsafe.Pointer) status { return statusNone }

func proxyGetHeaders(uint32, unsafe.Pointer, unsafe.Pointer) status { return statusNone }

func proxyReplaceHeader(uint32, string, string) status { return statusNone }

func proxyRemoveHeader(uint32, string) status { return statusNone }

func proxyGetBuffer(uint32, int32, int32, unsafe.Pointer, unsafe.Pointer) status { return statusNone }

func proxyGetSharedData(string, unsafe.Pointer, unsafe.Pointer, unsafe.Pointer) status {
	return statusNone
}

func proxySetSharedData(string, string, uint32) status { return statusNone }

func proxyRegisterQueue(string, unsafe.Pointer) status { return statusNone }

func proxyResolveQueue(string, string, unsafe.Pointer) status { return statusNone }

func proxyEnqueue(uint32, string) status { return statusNone }

func proxyDequeue(uint32, unsafe.Pointer, unsafe.Pointer) status { return statusNone }

func proxyContinueStream(uint32) status { return statusNone }

func proxySendResponse(uint32, string, string, string, int32) status { return statusNone }

func proxyHTTPCall(string, string, string, string, uint32, unsafe.Pointer) status { return statusNone }

func proxySetTickPeriod(uint32) status { return statusNone }

func proxySetContext(uint32) status { return statusNone }

func proxyDone() status { return statusNone }

func proxyDefineMetric(uint32, string, unsafe.Pointer) status { return statusOK }

func proxyIncrementMetric(uint32, int64) status { return statusOK }

func proxyRecordMetric(uint32, uint64) status            { return statusOK }
func clockTimeGet(uint32, uint64, unsafe.Pointer) uint32 { return 0 }
