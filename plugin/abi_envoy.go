//go:build envoy && wasm

package main

// Stock Envoy knows the versions up to this one. A module with it must not run on Higress, which would take it, too,
// and then never call the body callbacks of held requests.
//
//go:wasmexport proxy_abi_version_0_2_1
func abiVersion() {}
