package main

import (
	"unsafe"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"
	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm/types"
)

// This file mends what the SDK lacks. build/sdk-patches has each mend as a patch: once the SDK has it, the part here
// can go.

// sdk is the SDK's state. It has the fields of its vmstate.go, in their order: go.mod pins the version, and the tests
// of this package fail with another order.
//
//go:linkname sdk github.com/higress-group/proxy-wasm-go-sdk/proxywasm/internal.currentState
var sdk *struct {
	vmContext         types.VMContext
	pluginContexts    map[uint32]*sdkPlugin
	httpContexts      map[uint32]types.HttpContext
	tcpContexts       map[uint32]types.TcpContext
	contextIDToRootID map[uint32]uint32
	activeContextID   uint32
}

type sdkPlugin struct {
	context types.PluginContext
	_, _    map[uint32]unsafe.Pointer // what to call with answers
}

// 1. The end of a stream. The SDK tells it by proxy_on_log alone, and only while it knows the stream: over HTTP/3 the
// gateway logs a request after its context was deleted, if at all. The end of a configuration comes by proxy_on_done,
// which the gateway calls for streams, too, before it deletes any. So until it is done, each stream is known as a
// configuration as well.

type streamEnd struct{ types.DefaultPluginContext }

// streamEnds is that configuration, the same for all streams.
var streamEnds = sdkPlugin{context: &streamEnd{}}

// tellEnd has the end of a stream told.
func tellEnd(context uint32) { sdk.pluginContexts[context] = &streamEnds }

// OnPluginDone is called when the gateway is done with a stream.
func (*streamEnd) OnPluginDone() bool {
	context := sdk.activeContextID
	delete(sdk.pluginContexts, context)
	sdk.httpContexts[context].OnHttpStreamDone()
	return true
}

// 2. Calls out. The SDK passes an answer to the context that was active when the call was made, and drops it when that
// was a request which has ended since. So calls are made as the configuration.

// asPlugin runs f as the configuration of the given context, for the gateway and for the SDK, and then returns to that
// of the running callback.
func asPlugin(context uint32, f func()) {
	become(context)
	defer func() { become(theVM.Context()) }()
	f()
}

func become(context uint32) {
	_ = proxywasm.SetEffectiveContext(context) // the context of a callback is known
	sdk.activeContextID = context
}

// 3. Memory. For what a call returns, the SDK's proxy_on_memory_allocate makes new memory, clears it, and panics for
// none. It cannot be replaced, but gateways take an export malloc in its place, if there is one: it is in memory.go.

// 4. Contexts that are not known. In a callback for a context or a call that it does not know, the SDK panics, and the
// VM is lost. A gateway knows what it has created, and the SDK forgets none of that before it is deleted: so the mends
// above must not either.
