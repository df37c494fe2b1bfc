package main

import (
	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"
	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm/types"
)

// This file connects the SDK's callbacks to vm, plugin and stream. Every callback is guarded.

// theVM is the state of this VM. The gateway keeps one VM over changes of the configuration.
var theVM *vm

type vmContext struct{ types.DefaultVMContext }

// NewPluginContext is called for every configuration.
func (*vmContext) NewPluginContext(uint32) types.PluginContext {
	if theVM == nil {
		theVM = newVM(newGateway())
	}
	return &pluginContext{plugin: &plugin{vm: theVM}}
}

type pluginContext struct {
	types.DefaultPluginContext
	plugin *plugin
}

// OnPluginStart reads the configuration. A failure makes the gateway go on with the one before.
func (p *pluginContext) OnPluginStart(int) types.OnPluginStartStatus {
	ok := types.OnPluginStartStatusFailed
	theVM.guard("the start of a configuration", func() {
		raw, err := proxywasm.GetPluginConfiguration()
		if err != nil {
			raw = nil
		}
		name, _ := proxywasm.GetProperty([]string{"plugin_name"})
		configured, accepted := theVM.configure(string(name), raw, gatewayKind)
		if !accepted {
			return
		}
		theVM.retire(p.plugin) // the gateway may start a context anew
		p.plugin = configured
		if err := proxywasm.SetTickPeriodMilliSeconds(uint32(tickPeriod.Milliseconds())); err != nil {
			theVM.gw.Log(Warn, "no ticks: "+err.Error())
		}
		ok = types.OnPluginStartStatusOK
	}, nil)
	return ok
}

// OnPluginDone is called when the gateway is about to drop the configuration.
func (p *pluginContext) OnPluginDone() bool {
	theVM.guard("the end of a configuration", func() { theVM.retire(p.plugin) }, nil)
	return true
}

// OnTick does what is due.
func (p *pluginContext) OnTick() { theVM.guard("a tick", theVM.tick, nil) }

// NewHttpContext is called for every request.
func (p *pluginContext) NewHttpContext(id uint32) types.HttpContext {
	return &httpContext{stream: p.plugin.newStream(newGatewayStream(id))}
}

type httpContext struct {
	types.DefaultHttpContext
	stream *stream
}

// run guards a callback that may hold the request.
func (h *httpContext) run(callback string, f func() action) types.Action {
	a := proceed
	theVM.guard(callback, func() { a = f() }, h.stream.recovered)
	if a == hold {
		return types.ActionPause
	}
	return types.ActionContinue
}

// OnHttpRequestHeaders implements types.HttpContext.
func (h *httpContext) OnHttpRequestHeaders(_ int, end bool) types.Action {
	return h.run("request headers", func() action { return h.stream.requestHeaders(end) })
}

// OnHttpRequestBody implements types.HttpContext.
func (h *httpContext) OnHttpRequestBody(size int, end bool) types.Action {
	if h.stream.phase != phaseHeld && !end {
		return types.ActionContinue
	}
	return h.run("request body", func() action { return h.stream.requestBody(size, end) })
}

// OnHttpRequestTrailers implements types.HttpContext.
func (h *httpContext) OnHttpRequestTrailers(int) types.Action {
	return h.run("request trailers", h.stream.requestTrailers)
}

// OnHttpResponseHeaders implements types.HttpContext.
func (h *httpContext) OnHttpResponseHeaders(_ int, end bool) types.Action {
	theVM.guard("response headers", func() { h.stream.responseHeaders(end) }, nil)
	return types.ActionContinue
}

// OnHttpResponseBody implements types.HttpContext.
func (h *httpContext) OnHttpResponseBody(_ int, end bool) types.Action {
	if h.stream.firstBytes && !end { // a stream of tokens comes in thousands of parts
		return types.ActionContinue
	}
	theVM.guard("response body", func() { h.stream.responseBody(end) }, nil)
	return types.ActionContinue
}

// OnHttpResponseTrailers implements types.HttpContext.
func (h *httpContext) OnHttpResponseTrailers(int) types.Action {
	h.stream.responseTrailers()
	return types.ActionContinue
}

// OnHttpStreamDone implements types.HttpContext.
func (h *httpContext) OnHttpStreamDone() {
	theVM.guard("the end of a stream", h.stream.done, h.stream.recovered)
}
