//go:build envoy

package main

import "github.com/warmgate/warmgate/plugin/process"

// backendOfRoute leads to the cluster that Envoy Gateway has made for the policy's backend warmgate-metrics. It is in
// the metadata of the policy's routes alone.
var backendOfRoute = []string{
	"xds", "route_metadata", "filter_metadata", "gateway.envoyproxy.io/extension-backends", backendName,
}

// lookEvery is in how many calls noteBackend looks once: a control plane may change the cluster.
const lookEvery = 16

var backendCalls uint

// noteBackend is called when a request's route is known. Once in a while it looks whether that has the backend, and
// keeps its cluster in shared memory, "" for none: engines are scraped without a request, and by a VM that may have
// none.
func noteBackend() {
	if backendCalls++; backendCalls%lookEvery == 1 {
		cluster := propertyBytes(backendOfRoute...)
		_ = sharedData{}.Set(process.KeyBackend, cluster, 0) // if it fails, another request will
	}
}
