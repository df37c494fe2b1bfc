//go:build !envoy && wasm

package main

import (
	"errors"
	"unsafe"
)

//go:wasmimport env proxy_get_upstream_hosts
func proxyGetUpstreamHosts(data unsafe.Pointer, size *int32) uint32

//go:wasmimport env proxy_set_upstream_override_host
func proxySetUpstreamOverrideHost(addr unsafe.Pointer, size int32) uint32

// upstreamHosts returns the host list of the request's cluster as Higress writes it. The SDK's call splits it into
// strings, which costs more than finding that nothing has changed.
func upstreamHosts() []byte {
	var data *byte
	var size int32
	if proxyGetUpstreamHosts(unsafe.Pointer(&data), &size) != 0 || data == nil || size <= 0 {
		return nil
	}
	return unsafe.Slice(data, size)
}

// overrideHost sends the request to addr. The SDK's call makes its error with fmt: see metric_wasm.go.
func overrideHost(addr string) error {
	if proxySetUpstreamOverrideHost(unsafe.Pointer(unsafe.StringData(addr)), int32(len(addr))) != 0 {
		return errors.New("the gateway refused the endpoint")
	}
	return nil
}
