package main

import (
	"unsafe"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm/types"
)

// The SDK passes on the end of a stream from proxy_on_log only, and only while it knows the stream. Over HTTP/3 the
// gateway logs a request after it has deleted its context: once the client has acknowledged the response, if it does so
// at all. The end of a configuration is passed on from proxy_on_done, which the gateway calls for streams too, before
// it deletes any. So each stream is registered as a configuration as well, whose end is the stream's.

//go:linkname createPluginContext github.com/higress-group/proxy-wasm-go-sdk/proxywasm/internal.(*state).createPluginContext
func createPluginContext(s unsafe.Pointer, context uint32)

//go:linkname deleteContext github.com/higress-group/proxy-wasm-go-sdk/proxywasm/internal.proxyOnDelete
func deleteContext(context uint32)

// streamEnd is what the SDK registers as a configuration.
type streamEnd struct {
	types.DefaultPluginContext
	http *httpContext
}

// ending is the stream that is being registered, nil while none is.
var ending *streamEnd

// watch has the end of the stream passed on. It must be called before the SDK registers the stream itself, which then
// belongs to its own configuration again.
func watch(h *httpContext) {
	ending = &streamEnd{http: h}
	createPluginContext(sdkState, h.id)
	ending = nil
}

// OnPluginDone is called when the gateway is done with the stream. Each deletion in the SDK removes one of a stream's
// two contexts: the first now, so that none is left when the gateway deletes the stream.
func (e *streamEnd) OnPluginDone() bool {
	e.http.OnHttpStreamDone()
	deleteContext(e.http.id)
	return true
}
