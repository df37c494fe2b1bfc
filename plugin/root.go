package main

import (
	"unsafe"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"
)

// The SDK ties the answer to a call out to whatever is active when the call is made, and drops it when that was a
// request which has ended since. What is done for many requests must be active as the plugin; the SDK has no public
// call for that.

//go:linkname sdkState github.com/higress-group/proxy-wasm-go-sdk/proxywasm/internal.currentState
var sdkState unsafe.Pointer

//go:linkname setActive github.com/higress-group/proxy-wasm-go-sdk/proxywasm/internal.(*state).setActiveContextID
func setActive(s unsafe.Pointer, context uint32)

// asPlugin runs f as the configuration of the given context, for the gateway and for the SDK, and then comes back to
// the callback that runs.
func asPlugin(context uint32, f func()) {
	become(context)
	defer become(theVM.Context())
	f()
}

func become(context uint32) {
	_ = proxywasm.SetEffectiveContext(context)
	setActive(sdkState, context)
}
