// Package core is the life of a request and of the VM that it runs in: the same on every gateway.
//
// A [VM] lives as long as the gateway's VM, a [Plugin] as long as one configuration, a [Stream] as long as one request.
// Their On... methods are the gateway's callbacks. What they need of the gateway goes through [Gateway] and
// [GatewayStream], which package main implements with the host calls of Proxy-Wasm, and tests with a fake gateway in
// virtual time. [Envoy] and [Higress] are the parts of a Gateway that need no host call.
//
// Nothing here makes a host call, reads the clock, or has build tags: native tests run what is in the artifacts.
package core
