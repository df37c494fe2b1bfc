// Package core is the life of a request and of the VM that it runs in: the same on every gateway.
//
// A [VM] lives as long as the gateway's VM, a [Plugin] as long as one configuration, a [Stream] as long as one request.
// Their On... methods are the gateway's callbacks. What they need of the gateway is in package host.
//
// Nothing here makes a host call, reads the clock, or has build tags: native tests run what is in the artifacts.
package core
