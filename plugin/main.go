// Command plugin is the Proxy-Wasm module of Warmgate: the life of a request and of the VM it runs in.
//
// It is built twice from the same core: for Higress, and with the build tag "envoy" for stock Envoy. What differs is
// in the files gateway_higress.go and gateway_envoy.go; what happens to a request is in stream.go and the same on both.
// This folder is the only one that may import the Proxy-Wasm SDK.
package main

import (
	"runtime/debug"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"
)

func main() {}

func init() {
	// What lives in a VM is a few megabytes, so collecting less often costs little memory and saves some CPU per request.
	debug.SetGCPercent(400)
	proxywasm.SetVMContext(&vmContext{})
}
