//go:build wasm

package main

import "unsafe"

// The host calls of Proxy-Wasm 0.2 that both gateways have. A string is passed as its address and its length. Where
// bytes are returned, the host has their memory allocated: see memory.go. It calls the module for that, and the stack
// of the caller may move then: only calls that return nothing may be passed addresses on it, by go:noescape.

//go:wasmimport env proxy_log
//go:noescape
func proxyLog(level uint32, text string) status

//go:wasmimport env proxy_get_property
func proxyGetProperty(path string, data, size unsafe.Pointer) status

//go:wasmimport env proxy_set_property
//go:noescape
func proxySetProperty(path, value string) status

//go:wasmimport env proxy_get_header_map_value
func proxyGetHeader(headers uint32, name string, data, size unsafe.Pointer) status

//go:wasmimport env proxy_get_header_map_pairs
func proxyGetHeaders(headers uint32, data, size unsafe.Pointer) status

//go:wasmimport env proxy_replace_header_map_value
//go:noescape
func proxyReplaceHeader(headers uint32, name, value string) status

//go:wasmimport env proxy_remove_header_map_value
//go:noescape
func proxyRemoveHeader(headers uint32, name string) status

//go:wasmimport env proxy_get_buffer_bytes
func proxyGetBuffer(buffer uint32, from, max int32, data, size unsafe.Pointer) status

//go:wasmimport env proxy_get_shared_data
func proxyGetSharedData(key string, data, size, cas unsafe.Pointer) status

//go:wasmimport env proxy_set_shared_data
//go:noescape
func proxySetSharedData(key, value string, cas uint32) status

//go:wasmimport env proxy_register_shared_queue
func proxyRegisterQueue(name string, queue unsafe.Pointer) status

//go:wasmimport env proxy_resolve_shared_queue
func proxyResolveQueue(vm, name string, queue unsafe.Pointer) status

//go:wasmimport env proxy_enqueue_shared_queue
//go:noescape
func proxyEnqueue(queue uint32, message string) status

//go:wasmimport env proxy_dequeue_shared_queue
func proxyDequeue(queue uint32, data, size unsafe.Pointer) status

//go:wasmimport env proxy_continue_stream
func proxyContinueStream(stream uint32) status

//go:wasmimport env proxy_send_local_response
//go:noescape
func proxySendResponse(code uint32, details, body, headers string, grpc int32) status

//go:wasmimport env proxy_http_call
func proxyHTTPCall(cluster, headers, body, trailers string, millis uint32, call unsafe.Pointer) status

//go:wasmimport env proxy_set_tick_period_milliseconds
func proxySetTickPeriod(millis uint32) status

//go:wasmimport env proxy_set_effective_context
func proxySetContext(context uint32) status

//go:wasmimport env proxy_done
func proxyDone() status

//go:wasmimport env proxy_define_metric
func proxyDefineMetric(kind uint32, name string, id unsafe.Pointer) status

//go:wasmimport env proxy_increment_metric
func proxyIncrementMetric(id uint32, n int64) status

//go:wasmimport env proxy_record_metric
func proxyRecordMetric(id uint32, n uint64) status

//go:wasmimport wasi_snapshot_preview1 clock_time_get
func clockTimeGet(clock uint32, precision uint64, out unsafe.Pointer) uint32
