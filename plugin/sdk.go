package main

import (
	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"
	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm/types"
)

// This file connects the SDK's callbacks to vm, plugin and stream. Every callback is guarded.

// theVM is the state of this VM. The gateway keeps one VM over changes of the configuration.
var theVM *vm

type vmContext struct{ types.DefaultVMContext }

// NewPluginContext is called for every configuration, and by watch.
func (*vmContext) NewPluginContext(id uint32) types.PluginContext {
	if ending != nil {
		return ending
	}
	if theVM == nil {
		theVM = newVM(newGateway())
	}
	return &pluginContext{id: id, plugin: &plugin{vm: theVM}}
}

type pluginContext struct {
	types.DefaultPluginContext
	id     uint32
	plugin *plugin
}

// callback runs one of the gateway's callbacks in the context that it is for.
func callback(context uint32, name string, f, recovered func()) {
	theVM.inside = context
	theVM.guard(name, f, recovered)
}

// OnPluginStart reads the configuration. A failure makes the gateway go on with the one before.
func (p *pluginContext) OnPluginStart(int) types.OnPluginStartStatus {
	ok := types.OnPluginStartStatusFailed
	callback(p.id, "the start of a configuration", func() {
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
		p.plugin.context = p.id
		theVM.setTick(p.plugin, theVM.now(), firstTick)
		ok = types.OnPluginStartStatusOK
	}, nil)
	return ok
}

// OnPluginDone is called when the gateway is about to drop the configuration.
func (p *pluginContext) OnPluginDone() bool {
	done := true
	callback(p.id, "the end of a configuration", func() { done = theVM.leave(p.plugin) }, nil)
	return done
}

// OnTick does what is due.
func (p *pluginContext) OnTick() {
	callback(p.id, "a tick", func() { theVM.tick(p.plugin) }, nil)
}

// NewHttpContext is called for every request.
func (p *pluginContext) NewHttpContext(id uint32) types.HttpContext {
	h := &httpContext{stream: p.plugin.newStream(id, newGatewayStream())}
	watch(h)
	return h
}

type httpContext struct {
	types.DefaultHttpContext
	stream *stream
}

// run guards a callback that may hold the request. full is what stops all of it.
func (h *httpContext) run(name string, full types.Action, f func() action) types.Action {
	a := proceed
	callback(h.stream.context, name, func() { a = f() }, h.stream.recovered)
	switch a {
	case hold:
		return types.ActionPause
	case stop:
		return full
	}
	return types.ActionContinue
}

// OnHttpRequestHeaders implements types.HttpContext. While the store is asked, the body waits in front of the filter.
func (h *httpContext) OnHttpRequestHeaders(_ int, end bool) types.Action {
	return h.run("request headers", types.HeaderStopAllIterationAndWatermark, func() action { return h.stream.requestHeaders(end) })
}

// OnHttpRequestBody implements types.HttpContext. A body that is held while the store is asked pushes back at the
// client when it is big, where one that waits for its next part would be refused.
func (h *httpContext) OnHttpRequestBody(size int, end bool) types.Action {
	if h.stream.phase != phaseHeld && h.stream.phase != phaseReserving && !end {
		h.stream.received += size
		return types.ActionContinue
	}
	return h.run("request body", types.DataStopIterationAndWatermark, func() action { return h.stream.requestBody(size, end) })
}

// OnHttpRequestTrailers implements types.HttpContext.
func (h *httpContext) OnHttpRequestTrailers(int) types.Action {
	return h.run("request trailers", types.ActionPause, h.stream.requestTrailers)
}

// OnHttpResponseHeaders implements types.HttpContext.
func (h *httpContext) OnHttpResponseHeaders(_ int, end bool) types.Action {
	callback(h.stream.context, "response headers", func() { h.stream.responseHeaders(end) }, nil)
	return types.ActionContinue
}

// OnHttpResponseBody implements types.HttpContext.
func (h *httpContext) OnHttpResponseBody(size int, end bool) types.Action {
	if h.stream.firstBytes && !end && !h.stream.reads() { // a stream of tokens comes in thousands of parts
		return types.ActionContinue
	}
	callback(h.stream.context, "response body", func() { h.stream.responseBody(size, end) }, nil)
	return types.ActionContinue
}

// OnHttpResponseTrailers implements types.HttpContext.
func (h *httpContext) OnHttpResponseTrailers(int) types.Action {
	h.stream.responseTrailers()
	return types.ActionContinue
}

// OnHttpStreamDone is called when the gateway logs the request and when it is done with it, in either order. The first
// call counts.
func (h *httpContext) OnHttpStreamDone() {
	if h.stream.phase == phaseDone {
		return
	}
	callback(h.stream.context, "the end of a stream", h.stream.done, h.stream.recovered)
}
