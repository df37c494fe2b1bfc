//go:build !envoy

package main

import (
	"strconv"

	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/core"
	"github.com/warmgate/warmgate/plugin/endpoints"
)

const gatewayKind = config.Higress

// bodySlack is how many bytes may arrive beyond those to be inspected before the request goes on.
const bodySlack = 1 << 20

// higressGateway is Higress: endpoints and the choice by its own host calls.
type higressGateway struct {
	gateway
	*endpoints.Higress
}

func newGateway() core.Gateway { return &higressGateway{Higress: endpoints.NewHigress(higressCalls{})} }

// higressCalls implements endpoints.HigressCalls.
type higressCalls struct{ gateway }

// hostsMemory is lent for lists of hosts: each request reads one.
var hostsMemory []byte

// maxHostsMemory is how much of it is kept: longer lists are not read for every request.
const maxHostsMemory = 64 << 10

// UpstreamHosts implements endpoints.HigressCalls.
func (higressCalls) UpstreamHosts() []byte {
	lend(hostsMemory)
	b := fetched(proxyGetUpstreamHosts(dataAt, sizeAt))
	hostsMemory = keepMemory(hostsMemory, b, maxHostsMemory)
	return b
}

// AsRequest implements endpoints.HigressCalls.
func (c higressCalls) AsRequest(context uint32, f func()) {
	c.Enter(context)
	defer func() { c.Enter(theVM.Context()) }()
	f()
}

// higressStream is a request in Higress. An alias, for the size of the artifact.
type higressStream = stream

func newGatewayStream() core.GatewayStream { return higressStream{} }

// Cluster implements core.GatewayStream.
func (s higressStream) Cluster() string { return property("cluster_name") }

// Route implements core.GatewayStream.
func (s higressStream) Route() string { return property("route_name") }

// ReleaseHeaders implements core.GatewayStream.
func (s higressStream) ReleaseHeaders() {}

// HoldBody implements core.GatewayStream. The listener's buffer is 32 KiB by default, and a held body above it fails
// with 413.
func (s higressStream) HoldBody(max int) {
	proxySetProperty("set_decoder_buffer_limit", strconv.Itoa(max+bodySlack))
}

// Steer implements core.GatewayStream. Higress takes one host; its retries go to native balancing.
func (s higressStream) Steer(addr string, _ []string) error {
	return proxySetOverrideHost(addr).err()
}

// Unsteer implements core.GatewayStream: in Higress no header of a client can steer.
func (s higressStream) Unsteer() {}
