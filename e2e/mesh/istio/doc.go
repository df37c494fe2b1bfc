// Package istio tests deploy/istio and docs/istio.md with the code of Istio: its validation judges the resources, its
// discovery server makes the configuration of a gateway of them, the code of its agent fetches the module, and a real
// Envoy runs what comes of that, with requests.
//
// It is a module of its own, so that Istio is no dependency of Warmgate. `make e2e-mesh` runs it.
package istio
