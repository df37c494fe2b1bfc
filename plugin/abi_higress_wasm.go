//go:build !envoy && wasm

package main

import "unsafe"

// Host calls that only Higress has. Stock Envoy loads no module that merely names one.

//go:wasmimport env proxy_get_upstream_hosts
func proxyGetUpstreamHosts(data, size unsafe.Pointer) status

//go:wasmimport env proxy_set_upstream_override_host
func proxySetOverrideHost(addr string) status

//go:wasmimport env proxy_redis_init
func proxyRedisInit(cluster, user, password string, millis uint32) status

//go:wasmimport env proxy_redis_call
func proxyRedisCall(cluster, command string, call unsafe.Pointer) status

// Higress takes the first version that it knows. Under 0.2.1, which stock Envoy wants, a held request would never get
// its body.
//
//go:wasmexport proxy_abi_version_0_2_100
func abiVersion() {}
