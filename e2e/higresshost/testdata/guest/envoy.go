//go:build envoy

package main

import "github.com/higress-group/proxy-wasm-go-sdk/proxywasm"

//go:wasmexport proxy_abi_version_0_2_1
func proxyABIVersion021() {}

func (s *stream) higress(op string, _ []string) { proxywasm.LogError("unknown operation " + op) }
