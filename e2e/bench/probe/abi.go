//go:build wasip1

package main

// Stock Envoy refuses a module without this export. The SDK exports only the version that Higress requires.
//
//go:wasmexport proxy_abi_version_0_2_1
func proxyABIVersion() {}
