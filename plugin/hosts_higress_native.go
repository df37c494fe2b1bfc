//go:build !envoy && !wasm

package main

// upstreamHosts knows no hosts where there is no Higress.
func upstreamHosts() []byte { return nil }
