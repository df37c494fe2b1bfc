//go:build envoy

package main

import "github.com/warmgate/warmgate/plugin/core"

// backendOfRoute leads to the cluster that Envoy Gateway has made for the policy's backend warmgate-metrics. It is in
// the metadata of the policy's routes alone.
const backendOfRoute = "xds\x00route_metadata\x00filter_metadata\x00gateway.envoyproxy.io/extension-backends\x00" +
	backendName

// lookEvery is of how many requests one looks for the backend: a control plane may change its cluster.
const lookEvery = 16

var requests uint

// noteBackend is called for each request. Some look whether their route has the backend, and keep its cluster in shared
// memory, "" for none: engines are scraped without a request, and by a VM that may have none.
func noteBackend() {
	if requests++; requests%lookEvery == 1 {
		_ = sharedData{}.Set(core.KeyBackend, propertyBytes(backendOfRoute), 0) // if it fails, another request will
	}
}
