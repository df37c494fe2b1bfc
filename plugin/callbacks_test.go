package main

import "testing"

// A stream ends at the first of these calls of the gateway, in whatever order they come: over HTTP/3 it is logged last.
func TestStreamEndsInAnyOrder(t *testing.T) {
	const root, context = 1, 2
	log, done := func() { onLog(context) }, func() {
		if !onDone(context) {
			t.Error("the gateway is to keep the stream")
		}
	}
	for name, order := range map[string][]func(){"log, done": {log, done}, "done, log": {done, log}} {
		onContextCreate(root, 0)
		onContextCreate(context, root)
		s := streams[context]
		order[0]()
		if !s.Done() {
			t.Errorf("%s: the stream is not done after the first call", name)
		}
		order[1]()
		if len(streams) > 0 {
			t.Errorf("%s: the stream is still known", name)
		}
		if !onDone(root) || len(plugins) > 0 {
			t.Errorf("%s: the configuration is still known", name)
		}
	}
}

// What the gateway calls for a context that it has dropped, or that was never made, has no effect and holds nothing.
func TestUnknownContext(t *testing.T) {
	const context = 7
	onContextCreate(context, context-1) // of a configuration that is not known
	onTick(context)
	onQueueReady(context, 1)
	onResponseTrailers(context, 0)
	onLog(context)
	onHTTPCallResponse(context, 1, 1, 1, 0)
	onRedisCallResponse(context, 1, 0, 1)
	for name, got := range map[string]uint32{
		"request headers":  onRequestHeaders(context, 1, true),
		"request body":     onRequestBody(context, 1, true),
		"request trailers": onRequestTrailers(context, 1),
		"response headers": onResponseHeaders(context, 1, true),
		"response body":    onResponseBody(context, 1, true),
	} {
		if got != goOn {
			t.Errorf("%s: %d", name, got)
		}
	}
	if !onVMStart(context, 0) || onConfigure(context, 1) {
		t.Error("the VM does not start, or starts a configuration that is not known")
	}
	if !onDone(context) || len(streams)+len(plugins) > 0 {
		t.Error("the context is known")
	}
}

// The answer to a call is handled once, and not after its configuration was dropped.
func TestCalls(t *testing.T) {
	c := calls[string]{1: {10, "one"}, 2: {20, "two"}, 3: {10, "three"}}
	if got, known := c.take(1); !known || got != "one" {
		t.Errorf("%q, %v", got, known)
	}
	if got, known := c.take(1); known {
		t.Errorf("%q is known after it was taken", got)
	}
	c.drop(10)
	if _, known := c.take(3); known {
		t.Error("a call of a dropped configuration is known")
	}
	if _, known := c.take(2); !known {
		t.Error("the call of another configuration was dropped")
	}
}
