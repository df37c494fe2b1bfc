// Command readbody is the smallest useful Proxy-Wasm plugin in Go: it holds the request, reads its whole body once, and lets
// it go. It does nothing with what it read. The overhead benchmark takes it as the floor for any plugin that has to know the
// prompt.
package main

import (
	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"
	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm/types"
)

func main() {}

func init() { proxywasm.SetVMContext(&vm{}) }

type vm struct{ types.DefaultVMContext }

func (*vm) NewPluginContext(uint32) types.PluginContext { return &plugin{} }

type plugin struct{ types.DefaultPluginContext }

func (*plugin) NewHttpContext(uint32) types.HttpContext { return &stream{} }

type stream struct {
	types.DefaultHttpContext
	read int // bytes of body seen, so that the read cannot be optimised away
}

// OnHttpRequestHeaders holds the headers until the body is complete.
func (s *stream) OnHttpRequestHeaders(_ int, endOfStream bool) types.Action {
	if endOfStream {
		return types.ActionContinue
	}
	return types.HeaderStopIteration
}

// OnHttpRequestBody reads the body when it is complete.
func (s *stream) OnHttpRequestBody(size int, endOfStream bool) types.Action {
	if !endOfStream {
		return types.DataStopIterationAndBuffer
	}
	body, err := proxywasm.GetHttpRequestBody(0, size)
	if err != nil {
		proxywasm.LogErrorf("readbody: %v", err)
	}
	s.read += len(body)
	return types.ActionContinue
}
