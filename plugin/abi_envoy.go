//go:build envoy && wasm

package main

// Stock Envoy looks for this export; the SDK exports Higress's version alone. A module with both must not run on
// Higress, which would take this one and then never call the body callbacks of held requests.
//
//go:wasmexport proxy_abi_version_0_2_1
func abiVersion() {}
