package main

import (
	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"
	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm/types"

	"github.com/warmgate/warmgate/plugin/core"
)

// This file connects the SDK's callbacks to the core's VM, Plugin and Stream, which guard them.

// theVM is the state of this VM. The gateway keeps one VM over changes of the configuration.
var theVM *core.VM

type vmContext struct{ types.DefaultVMContext }

// NewPluginContext is called for every configuration, and by watch.
func (*vmContext) NewPluginContext(id uint32) types.PluginContext {
	if ending != nil {
		return ending
	}
	if theVM == nil {
		theVM = core.NewVM(newGateway(), gatewayKind)
	}
	return &pluginContext{plugin: theVM.NewPlugin(id)}
}

type pluginContext struct {
	types.DefaultPluginContext
	plugin *core.Plugin
}

// OnPluginStart reads the configuration. A failure makes the gateway keep the previous one.
func (p *pluginContext) OnPluginStart(int) types.OnPluginStartStatus {
	started := p.plugin.OnStart(func() (string, []byte) {
		raw, err := proxywasm.GetPluginConfiguration()
		if err != nil {
			raw = nil
		}
		name, _ := proxywasm.GetProperty([]string{"plugin_name"})
		return string(name), raw
	})
	if started == nil {
		return types.OnPluginStartStatusFailed
	}
	p.plugin = started
	return types.OnPluginStartStatusOK
}

// OnPluginDone is called when the gateway is about to drop the configuration.
func (p *pluginContext) OnPluginDone() bool { return p.plugin.OnDone() }

// OnQueueReady is called when another VM has woken this one.
func (p *pluginContext) OnQueueReady(queue uint32) {
	if messages := drain(queue); len(messages) > 0 { // else an earlier call has read them
		p.plugin.OnWake(messages)
	}
}

// OnTick does what is due.
func (p *pluginContext) OnTick() { p.plugin.OnTick() }

// NewHttpContext is called for every request.
func (p *pluginContext) NewHttpContext(id uint32) types.HttpContext {
	h := &httpContext{id: id, stream: p.plugin.NewStream(id, newGatewayStream())}
	watch(h)
	return h
}

type httpContext struct {
	types.DefaultHttpContext
	id     uint32
	stream *core.Stream
}

// sdkAction returns the SDK's word for an action; full is the one that stops all of the request.
func sdkAction(a core.Action, full types.Action) types.Action {
	switch a {
	case core.Hold:
		return types.ActionPause
	case core.Stop:
		return full
	}
	return types.ActionContinue
}

// OnHttpRequestHeaders implements types.HttpContext. While the store decides, the body waits in front of the filter.
func (h *httpContext) OnHttpRequestHeaders(_ int, end bool) types.Action {
	return sdkAction(h.stream.OnRequestHeaders(end), types.HeaderStopAllIterationAndWatermark)
}

// OnHttpRequestBody implements types.HttpContext. A body that is held while the store decides pushes back at the client
// when it is big, where one that waits for its next part would be refused.
func (h *httpContext) OnHttpRequestBody(size int, end bool) types.Action {
	return sdkAction(h.stream.OnRequestBody(size, end), types.DataStopIterationAndWatermark)
}

// OnHttpRequestTrailers implements types.HttpContext.
func (h *httpContext) OnHttpRequestTrailers(int) types.Action {
	return sdkAction(h.stream.OnRequestTrailers(), types.ActionPause)
}

// OnHttpResponseHeaders implements types.HttpContext.
func (h *httpContext) OnHttpResponseHeaders(_ int, end bool) types.Action {
	h.stream.OnResponseHeaders(end)
	return types.ActionContinue
}

// OnHttpResponseBody implements types.HttpContext.
func (h *httpContext) OnHttpResponseBody(size int, end bool) types.Action {
	h.stream.OnResponseBody(size, end)
	return types.ActionContinue
}

// OnHttpResponseTrailers implements types.HttpContext.
func (h *httpContext) OnHttpResponseTrailers(int) types.Action {
	h.stream.OnResponseTrailers()
	return types.ActionContinue
}

// OnHttpStreamDone is called when the gateway logs the request and when it is done with it, in either order.
func (h *httpContext) OnHttpStreamDone() { h.stream.OnDone() }
