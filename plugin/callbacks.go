package main

import "github.com/warmgate/warmgate/plugin/core"

// This file has the callbacks of Proxy-Wasm: it passes them on to the core's VM, Plugin and Stream, which guard them.

// theVM is the state of this VM, nil before the first configuration. The gateway keeps one VM over changes of the
// configuration.
var theVM *core.VM

// What the gateway's contexts are for.
var (
	plugins = map[uint32]*core.Plugin{}
	streams = map[uint32]*core.Stream{}
)

// onContextCreate is called for every configuration, whose parent is 0, and for every request.
//
//go:wasmexport proxy_on_context_create
func onContextCreate(context, parent uint32) {
	if parent != 0 {
		if p := plugins[parent]; p != nil {
			streams[context] = p.NewStream(context, newGatewayStream())
		}
		return
	}
	if theVM == nil {
		theVM = core.NewVM(newGateway(), gatewayKind)
	}
	plugins[context] = theVM.NewPlugin(context)
}

//go:wasmexport proxy_on_vm_start
func onVMStart(uint32, uint32) bool { return true }

// onConfigure reads the configuration. A failure makes the gateway keep the previous one.
//
//go:wasmexport proxy_on_configure
func onConfigure(context, size uint32) bool {
	p := plugins[context]
	if p == nil {
		return false
	}
	started := p.OnStart(func() (string, []byte) {
		return property("plugin_name"), buffer(configuration, 0, int(size), nil)
	})
	if started == nil {
		return false
	}
	plugins[context] = started
	return true
}

//go:wasmexport proxy_on_tick
func onTick(context uint32) {
	if p := plugins[context]; p != nil {
		p.OnTick()
	}
}

// onQueueReady is called when another VM has woken this one.
//
//go:wasmexport proxy_on_queue_ready
func onQueueReady(context, queue uint32) {
	messages := drain(queue)
	if p := plugins[context]; p != nil && len(messages) > 0 { // else an earlier call has read them
		p.OnWake(messages)
	}
}

// What the gateway is to do with the part of a request that a callback is for.
const (
	goOn          = 0
	keep          = 1
	stopAtHeaders = 4 // stop all of the request, and push back at the client when it is big
	stopAtBody    = 2 // likewise: a body that waits for its next part would be refused when it is big
)

// gatewayAction returns the gateway's number of an action; stop is the one of core.Stop.
func gatewayAction(a core.Action, stop uint32) uint32 {
	switch a {
	case core.Hold:
		return keep
	case core.Stop:
		return stop
	}
	return goOn
}

//go:wasmexport proxy_on_request_headers
func onRequestHeaders(context, _ uint32, end bool) uint32 {
	s := streams[context]
	if s == nil {
		return goOn
	}
	trapOnDemand()
	return gatewayAction(s.OnRequestHeaders(end), stopAtHeaders)
}

//go:wasmexport proxy_on_request_body
func onRequestBody(context, size uint32, end bool) uint32 {
	s := streams[context]
	if s == nil {
		return goOn
	}
	return gatewayAction(s.OnRequestBody(int(size), end), stopAtBody)
}

//go:wasmexport proxy_on_request_trailers
func onRequestTrailers(context, _ uint32) uint32 {
	s := streams[context]
	if s == nil {
		return goOn
	}
	return gatewayAction(s.OnRequestTrailers(), keep)
}

//go:wasmexport proxy_on_response_headers
func onResponseHeaders(context, _ uint32, end bool) uint32 {
	if s := streams[context]; s != nil {
		s.OnResponseHeaders(end)
	}
	return goOn
}

//go:wasmexport proxy_on_response_body
func onResponseBody(context, size uint32, end bool) uint32 {
	if s := streams[context]; s != nil {
		s.OnResponseBody(int(size), end)
	}
	return goOn
}

//go:wasmexport proxy_on_response_trailers
func onResponseTrailers(context, _ uint32) uint32 {
	if s := streams[context]; s != nil {
		s.OnResponseTrailers()
	}
	return goOn
}

// onLog is called before a request is written to the access log. Over HTTP/3 that comes last, once the client has
// acknowledged the response, if it does so at all.
//
//go:wasmexport proxy_on_log
func onLog(context uint32) {
	if s := streams[context]; s != nil {
		s.OnDone()
	}
}

// onDone is called when the gateway is about to drop a context. It returns false when the gateway must keep it until
// Gateway.PluginDone is called. There is no callback for the time after that: nothing refers to the context any more.
//
//go:wasmexport proxy_on_done
func onDone(context uint32) bool {
	if s := streams[context]; s != nil {
		delete(streams, context)
		s.OnDone()
		return true
	}
	if p := plugins[context]; p != nil && !p.OnDone() {
		return false
	}
	forget(context)
	return true
}

// forget drops what is known of the context of a configuration.
func forget(context uint32) {
	delete(plugins, context)
	httpCalls.drop(context)
	redisCalls.drop(context)
}

// asPlugin runs f as the configuration of the given context, and then returns to that of the running callback.
func asPlugin(context uint32, f func()) {
	proxySetContext(context)
	defer func() { proxySetContext(theVM.Context()) }()
	f()
}
