// Package core is the life of a request, the same on every gateway: a [Stream], whose On... methods are the gateway's
// callbacks.
//
// Nothing here makes a host call, reads the clock, or has build tags: native tests run what is in the artifacts.
package core
