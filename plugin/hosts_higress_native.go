//go:build !envoy && !wasm

package main

// upstreamHosts knows no hosts where there is no Higress.
func upstreamHosts() []byte { return nil }

// overrideHost does nothing there.
func overrideHost(string) error { return nil }
