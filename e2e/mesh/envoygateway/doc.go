// Package envoygateway tests deploy/envoy-gateway and docs/envoy-gateway.md with the code of Envoy Gateway: its command
// line validates and translates the resources, its control plane serves what it makes of them to a real Envoy, and
// requests are sent to that.
//
// It is a module of its own, so that Envoy Gateway is no dependency of Warmgate. `make e2e-mesh` runs it.
package envoygateway
