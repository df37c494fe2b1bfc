//go:build !envoy && wasm

package main

import "unsafe"

// The SDK splits the list of hosts into strings, which costs more than finding that nothing has changed. Its call for
// the choice makes its error with fmt: see abi_wasm.go.

//go:wasmimport env proxy_get_upstream_hosts
func proxyGetUpstreamHosts(data, size unsafe.Pointer) status

//go:wasmimport env proxy_set_upstream_override_host
//go:noescape
func proxySetOverrideHost(addr string) status
