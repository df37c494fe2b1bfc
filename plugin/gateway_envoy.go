//go:build envoy

package main

import (
	"encoding/base64"
	"time"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/discovery"
	"github.com/warmgate/warmgate/plugin/endpoints"
	"github.com/warmgate/warmgate/plugin/host"
)

const gatewayKind = config.Envoy

// The headers that carry the choice to Envoy. Client-sent ones are stripped in front of the plugin.
const (
	headerSession     = "x-warmgate-session"             // base64 of the endpoint: read by stateful_session
	headerDestination = "x-gateway-destination-endpoint" // where retries go, in turn: read by override_host
)

// envoyGateway is stock Envoy: endpoints from its own admin interface or from the configuration, the choice by header.
type envoyGateway struct {
	gateway
	*endpoints.Envoy
}

func newGateway() host.Gateway { return &envoyGateway{Envoy: endpoints.NewEnvoy(envoyCalls{})} }

// envoyCalls implements endpoints.EnvoyCalls.
type envoyCalls = gateway

// Warn implements endpoints.EnvoyCalls.
func (c envoyCalls) Warn(text string) { c.Log(host.Warn, text) }

// Zone implements endpoints.EnvoyCalls.
func (envoyCalls) Zone() lb.Zone {
	return lb.Zone{
		Region: property("xds", "node", "locality", "region"), Name: property("xds", "node", "locality", "zone"),
	}
}

// AdminPage implements endpoints.EnvoyCalls.
func (envoyCalls) AdminPage(source *config.EnvoySource, path string, answered func(body []byte, status string)) error {
	call := httpCall{
		cluster: source.AdminCluster, within: endpoints.AdminTimeoutMillis * time.Millisecond,
		headers: [][2]string{{":method", "GET"}, {":path", path}, {":authority", "warmgate"}},
	}
	return call.send("the admin interface's page "+path, func(_, size int) { answered(adminPage(size)) })
}

// adminPage returns the page of an answer of size bytes, and its status, "" if there is none.
func adminPage(size int) (body []byte, status string) {
	if size > discovery.MaxClustersText { // half of a page would be worse than the previous one
		return nil, endpoints.TooLong
	}
	return callText(size), name(callHeader(":status"))
}

// envoyStream is a request in stock Envoy. An alias, as envoyCalls: methods that were promoted from another type would
// make the artifact 30 KB larger.
type envoyStream = stream

func newGatewayStream() host.GatewayStream { return envoyStream{} }

// Cluster implements host.GatewayStream. The plain cluster_name is empty before routing in stock Envoy. Every request
// asks for it, once it has a route, so this is where the route's backend is looked for.
func (s envoyStream) Cluster() string {
	noteBackend()
	return property("xds", "cluster_name")
}

// Route implements host.GatewayStream.
func (s envoyStream) Route() string { return property("xds", "route_name") }

// HoldBody implements host.GatewayStream: the listener's buffer limit, 1 MiB unless set, is far above what is held.
func (s envoyStream) HoldBody(int) {}

// ReleaseHeaders implements host.GatewayStream. Envoy would else keep the part before it passes on the headers. A
// filter behind the plugin that limits the body sets its limit then, and what is kept by then and exceeds it makes
// Envoy stop reading in place of answering 413: such a body passes, or the request hangs.
func (s envoyStream) ReleaseHeaders() { s.Resume() }

// steering is the memory for the headers of Steer: the gateway copies them.
var steering []byte

// Steer implements host.GatewayStream. The first choice goes through stateful_session, which leaves an endpoint alone
// that is unhealthy by now; retries follow the list of override_host.
func (s envoyStream) Steer(addr string, others []string) error {
	steering = append(steering[:0], addr...)
	steering = base64.StdEncoding.AppendEncode(steering, steering)
	if err := proxywasm.ReplaceHttpRequestHeader(headerSession, text(steering[len(addr):])); err != nil {
		return err
	}
	if len(others) == 0 {
		return proxywasm.RemoveHttpRequestHeader(headerDestination)
	}
	steering = steering[:0]
	for i, other := range others {
		if i > 0 {
			steering = append(steering, ',')
		}
		steering = append(steering, other...)
	}
	return proxywasm.ReplaceHttpRequestHeader(headerDestination, text(steering))
}

// Unsteer implements host.GatewayStream.
func (s envoyStream) Unsteer() {
	s.RemoveRequestHeader(headerSession)
	s.RemoveRequestHeader(headerDestination)
}
