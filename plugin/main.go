// Command plugin is the Proxy-Wasm module of Warmgate: it connects plugin/core, where requests live, to a gateway's
// callbacks and host calls.
//
// It is built twice: for Higress, and with the build tag "envoy" for stock Envoy. What differs is in the files
// *_higress.go and *_envoy.go; the files abi_* declare the host calls that the SDK lacks, and mends.go mends what is
// wrong there for the plugin. This folder is the only one that knows Proxy-Wasm.
package main

import (
	"runtime/debug"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"
)

func main() {}

func init() {
	// The live heap of a VM is a few megabytes, so collecting less often costs little memory and saves CPU.
	debug.SetGCPercent(400)
	proxywasm.SetVMContext(&vmContext{})
}
