// Package fault contains the tests of faults around a gateway on a real Envoy: the admin interface that the plugin
// learns endpoints from, the bodies that clients send, endpoints that come and go, and several configurations in one
// Envoy. In all of them a request has the same outcome as without the plugin, and every lease is returned.
package fault
