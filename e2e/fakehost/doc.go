// Package fakehost models what a gateway does with requests: the filter chain with a plugin as its only filter, the
// router, clusters with the gateway's own balancing, and simulated time. It knows neither WebAssembly nor the plugin:
// e2e/higresshost puts compiled modules behind it, and the tests of plugin/core the plugin's native code.
//
// A [Host] is what the requests of one gateway have in common, a [Stream] one request, a [Half] one direction of it at
// the plugin, which is a [Filter].
//
// # What is modelled
//
// The filter manager's rules for one filter (StopIteration, buffering, the growing buffer, flush on continue), local
// replies that pass the response callbacks, resets by either side, retries that the plugin does not see, and that a
// request ends exactly once: it is logged, done and deleted, in that order or logged last.
package fakehost
