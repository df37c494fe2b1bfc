// Package fault holds the tests of what goes wrong around a gateway on a real Envoy: the admin interface that the
// plugin learns endpoints from, the bodies that clients send, endpoints that come and go, and several configurations in
// one Envoy. Whatever happens, a request fares no worse than without the plugin, and every count comes back.
package fault
