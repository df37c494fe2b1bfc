//go:build !envoy

package main

import (
	"errors"
	"strconv"
	"unsafe"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"

	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/endpoints"
	"github.com/warmgate/warmgate/plugin/host"
)

const gatewayKind = config.Higress

// bodySlack is how many bytes may arrive beyond those to be inspected before the request goes on.
const bodySlack = 1 << 20

// higressGateway is Higress: endpoints and the choice by its own host calls.
type higressGateway struct {
	gateway
	*endpoints.Higress
}

func newGateway() host.Gateway { return &higressGateway{Higress: endpoints.NewHigress(higressCalls{})} }

// higressCalls implements endpoints.HigressCalls.
type higressCalls struct{ gateway }

// hostsMemory is lent for lists of hosts: each request reads one.
var hostsMemory []byte

// maxHostsMemory is how much of it is kept: longer lists are not read for every request.
const maxHostsMemory = 64 << 10

// hosts is where the host writes the address and the size of a list: not on the stack, which may move before.
var hosts struct {
	data *byte
	size int32
}

// UpstreamHosts implements endpoints.HigressCalls.
func (higressCalls) UpstreamHosts() []byte {
	lent, hosts.data, hosts.size = hostsMemory, nil, 0
	st := proxyGetUpstreamHosts(unsafe.Pointer(&hosts.data), unsafe.Pointer(&hosts.size))
	lent = nil
	switch {
	case st != statusOK:
		return nil
	case hosts.data == nil || hosts.size <= 0:
		return []byte{}
	}
	b := unsafe.Slice(hosts.data, hosts.size)
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

func newGatewayStream() host.GatewayStream { return higressStream{} }

// Cluster implements host.GatewayStream.
func (s higressStream) Cluster() string { return property("cluster_name") }

// Route implements host.GatewayStream.
func (s higressStream) Route() string { return property("route_name") }

// ReleaseHeaders implements host.GatewayStream.
func (s higressStream) ReleaseHeaders() {}

// HoldBody implements host.GatewayStream. The listener's buffer is 32 KiB by default, and a held body above it fails
// with 413.
func (s higressStream) HoldBody(max int) {
	_ = proxywasm.SetProperty([]string{"set_decoder_buffer_limit"}, []byte(strconv.Itoa(max+bodySlack)))
}

var errRefused = errors.New("the gateway refused the endpoint")

// Steer implements host.GatewayStream. Higress takes one host; its retries go to native balancing.
func (s higressStream) Steer(addr string, _ []string) error {
	if proxySetOverrideHost(addr) != statusOK {
		return errRefused
	}
	return nil
}

// Unsteer implements host.GatewayStream: in Higress no header of a client can steer.
func (s higressStream) Unsteer() {}
