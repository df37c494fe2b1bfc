//go:build chaos

package main

import (
	"sync"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"
	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm/types"
)

// This file is in no artifact that is shipped. It lets a test lose a VM in a way that no recover can prevent: a request
// with the header x-warmgate-chaos ends the Go runtime.

// Runs after the init of main.go: files are initialised in the order of their names.
func init() { proxywasm.SetVMContext(&trapVM{}) }

type trapVM struct{ vmContext }

// NewPluginContext implements types.VMContext.
func (v *trapVM) NewPluginContext(id uint32) types.PluginContext {
	context := v.vmContext.NewPluginContext(id)
	if p, ok := context.(*pluginContext); ok {
		return &trapPlugin{p}
	}
	return context // of a stream
}

type trapPlugin struct{ *pluginContext }

// NewHttpContext implements types.PluginContext.
func (p *trapPlugin) NewHttpContext(id uint32) types.HttpContext {
	return &trapRequest{p.pluginContext.NewHttpContext(id).(*httpContext)}
}

type trapRequest struct{ *httpContext }

// OnHttpRequestHeaders implements types.HttpContext.
func (r *trapRequest) OnHttpRequestHeaders(n int, end bool) types.Action {
	if how, err := proxywasm.GetHttpRequestHeader("x-warmgate-chaos"); err == nil {
		trap(how)
	}
	return r.httpContext.OnHttpRequestHeaders(n, end)
}

var sink [][]byte

func trap(how string) {
	switch how {
	case "fatal":
		new(sync.Mutex).Unlock()
	case "memory":
		for {
			sink = append(sink, make([]byte, 1<<30))
		}
	case "stack":
		deeper(0)
	}
}

//go:noinline
func deeper(n int) int { return deeper(n+1) + 1 }
