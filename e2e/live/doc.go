// Package live tests what warmgate shows of running gateways: a real Envoy with the plugin, of which it says what the
// servers behind it know.
package live
