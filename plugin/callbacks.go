package main

import (
	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"
	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm/types"

	"github.com/warmgate/warmgate/plugin/core"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/vm"
)

// This file passes the SDK's callbacks on to the VM, its configurations and the core's Stream, which guard them.

type vmContext struct{ types.DefaultVMContext }

// NewPluginContext is called for every configuration.
func (*vmContext) NewPluginContext(context uint32) types.PluginContext {
	if theVM == nil {
		theVM = vm.New(newGateway(), gatewayKind)
	}
	return &pluginContext{plugin: theVM.NewPlugin(context)}
}

type pluginContext struct {
	types.DefaultPluginContext
	plugin *vm.Plugin
}

// OnPluginStart reads the configuration. A failure makes the gateway keep the previous one.
func (p *pluginContext) OnPluginStart(int) types.OnPluginStartStatus {
	declareFields()
	started := p.plugin.OnStart(func() (string, []byte) {
		raw, _ := proxywasm.GetPluginConfiguration() // nil: refused, as one that is empty
		return property("plugin_name"), raw
	})
	if started == nil {
		return types.OnPluginStartStatusFailed
	}
	p.plugin = started
	return types.OnPluginStartStatusOK
}

// OnPluginDone is called when the gateway is about to drop the configuration. It returns false when the gateway must
// keep it until Gateway.PluginDone is called.
func (p *pluginContext) OnPluginDone() bool { return p.plugin.OnDone() }

// OnTick does what is due.
func (p *pluginContext) OnTick() { p.plugin.OnTick() }

// OnQueueReady is called when another VM has woken this one.
func (p *pluginContext) OnQueueReady(queue uint32) {
	if messages := drain(queue); len(messages) > 0 { // else an earlier call has read them
		p.plugin.OnWake(messages)
	}
}

// NewHttpContext is called for every request.
func (p *pluginContext) NewHttpContext(context uint32) types.HttpContext {
	tellEnd(context)
	return &httpContext{stream: core.NewStream(p.plugin, context, newGatewayStream())}
}

type httpContext struct {
	types.DefaultHttpContext
	stream *core.Stream
}

// sdkAction returns the SDK's word for an action; stop is the one for host.Stop.
func sdkAction(a host.Action, stop types.Action) types.Action {
	switch a {
	case host.Hold:
		return types.ActionPause
	case host.Stop:
		return stop
	}
	return types.ActionContinue
}

// OnHttpRequestHeaders implements types.HttpContext. host.Stop stops all of the request, and pushes back at the client
// when it is big.
func (h *httpContext) OnHttpRequestHeaders(_ int, end bool) types.Action {
	trapOnDemand()
	return sdkAction(h.stream.OnRequestHeaders(end), types.HeaderStopAllIterationAndWatermark)
}

// OnHttpRequestBody implements types.HttpContext. host.Stop pushes back at the client when the body is big, where one
// that waits for its next part would be refused.
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

// OnHttpStreamDone is called when the gateway logs the request, and when it is done with it: the first call counts.
func (h *httpContext) OnHttpStreamDone() { h.stream.OnDone() }
