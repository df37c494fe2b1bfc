package main

import (
	"testing"
	_ "unsafe" // for go:linkname

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm/types"
)

//go:linkname createContext github.com/higress-group/proxy-wasm-go-sdk/proxywasm/internal.proxyOnContextCreate
func createContext(context, parent uint32)

//go:linkname contextDone github.com/higress-group/proxy-wasm-go-sdk/proxywasm/internal.proxyOnDone
func contextDone(context uint32) bool

//go:linkname logContext github.com/higress-group/proxy-wasm-go-sdk/proxywasm/internal.proxyOnLog
func logContext(context uint32)

//go:linkname httpContextOf github.com/higress-group/proxy-wasm-go-sdk/proxywasm/internal.GetHttpContext
func httpContextOf(context uint32) types.HttpContext

// A stream ends at the first of these calls of the gateway, and the SDK then drops it, in whatever order they come.
func TestStreamEndsInAnyOrder(t *testing.T) {
	const root, stream = 1, 2
	for _, order := range [][]func(){
		{func() { logContext(stream) }, func() { contextDone(stream) }, func() { deleteContext(stream) }},
		{func() { contextDone(stream) }, func() { deleteContext(stream) }, func() { logContext(stream) }},
		{func() { contextDone(stream) }, func() { logContext(stream) }, func() { deleteContext(stream) }},
	} {
		createContext(root, 0)
		createContext(stream, root)
		s := httpContextOf(stream).(*httpContext).stream
		order[0]()
		if !s.Done() {
			t.Error("after the first call the stream is not done")
		}
		order[1]()
		order[2]()
		mustPanic(t, "a stream that was deleted is still known", func() { deleteContext(stream) })
		deleteContext(root)
	}
}

func mustPanic(t *testing.T, otherwise string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Error(otherwise)
		}
	}()
	f()
}
