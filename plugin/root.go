package main

import (
	"unsafe"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"
)

// The SDK passes the answer to a call out to the context that is active when the call is made, and drops it when that
// was a request which has ended since. So calls for many requests are made as the configuration; the SDK has no public
// call for that.

//go:linkname sdkState github.com/higress-group/proxy-wasm-go-sdk/proxywasm/internal.currentState
var sdkState unsafe.Pointer

//go:linkname setActive github.com/higress-group/proxy-wasm-go-sdk/proxywasm/internal.(*state).setActiveContextID
func setActive(s unsafe.Pointer, context uint32)

// asPlugin runs f as the configuration of the given context, for the gateway and for the SDK, and then returns to that
// of the running callback.
func asPlugin(context uint32, f func()) {
	become(context)
	defer become(theVM.Context())
	f()
}

func become(context uint32) {
	_ = proxywasm.SetEffectiveContext(context)
	setActive(sdkState, context)
}
