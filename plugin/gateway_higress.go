//go:build !envoy

package main

import (
	"strconv"
	"time"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/discovery"
)

const gatewayKind = config.Higress

const (
	// bigHostList is the size from which a list of hosts is not asked for with every request: with metrics in it,
	// it can be megabytes.
	bigHostList = 64 << 10
	// hostListAge is how long a big list is used.
	hostListAge = 250 * time.Millisecond
	// bodySlack is what may arrive beyond the bytes to be inspected before the request goes on.
	bodySlack = 1 << 20
)

// higressGateway is Higress: endpoints and the choice by its own host calls.
type higressGateway struct {
	sdkGateway
	lists *recent[string, *hostList]
	asked *recent[string, time.Duration] // when the pages of metrics of a cluster were last read
}

// hostList is what Higress last said of a cluster that has hosts.
type hostList struct {
	raw  string // "" of a big list
	view *lb.View
	at   time.Duration // of a big list: when it was read, 0 of others
	used time.Duration // of a big list: when a request last needed it
}

func newGateway() Gateway {
	return &higressGateway{lists: newRecent[string, *hostList](maxClusters), asked: newRecent[string, time.Duration](maxClusters)}
}

// View implements Gateway. The host list is read anew for every request as long as it is small, because from version
// 2.2 on Higress fails a request that is sent to a host that has just left.
func (g *higressGateway) View(now time.Duration, cluster string, _ *config.Config) *lb.View {
	l, known := g.lists.get(now, cluster)
	if known && l.at > 0 {
		if l.used = g.Now(); l.used-l.at < hostListAge {
			return l.view
		}
	}
	view, _ := g.read(now, cluster)
	return view
}

// outdated says whether a big list should be read before the next request has to do it.
func (g *higressGateway) outdated(now time.Duration, cluster string) bool {
	l, known := g.lists.get(now, cluster)
	return known && l.at > 0 && l.used >= l.at && g.Now()-l.at >= hostListAge/2
}

// read asks for the list of the cluster that the present request goes to. The view is the same as before while the
// endpoints are.
func (g *higressGateway) read(now time.Duration, cluster string) (*lb.View, []byte) {
	l, known := g.lists.get(now, cluster)
	raw := upstreamHosts()
	if known && l.at == 0 && string(raw) == l.raw {
		return l.view, raw
	}
	endpoints, err := discovery.ParseHosts(raw)
	if err != nil || len(endpoints) == 0 {
		g.lists.drop(cluster)
		return nil, raw
	}
	if !known {
		l = &hostList{}
		g.lists.put(now, cluster, l)
	}
	if l.view == nil || !sameEndpoints(l.view.Endpoints, endpoints) {
		l.view = &lb.View{Cluster: cluster, Endpoints: endpoints}
	}
	if l.raw, l.at = "", 0; len(raw) >= bigHostList {
		l.at = g.Now()
	} else {
		l.raw = string(raw)
	}
	return l.view, raw
}

// Divided implements Gateway: Istio makes a cluster of its own for each subset of a service.
func (g *higressGateway) Divided(string, *config.Config) bool { return false }

// Tick implements Gateway: Higress tells endpoints when asked.
func (g *higressGateway) Tick(time.Duration, *config.EnvoySource) {}

// higressStream is a request in Higress.
type higressStream struct{ sdkStream }

func newGatewayStream() Stream { return higressStream{} }

// Cluster implements Stream.
func (s higressStream) Cluster() string { return property("cluster_name") }

// Route implements Stream.
func (s higressStream) Route() string { return property("route_name") }

// ReleaseHeaders implements Stream.
func (s higressStream) ReleaseHeaders() {}

// HoldBody implements Stream. The listener's buffer is 32 KiB by default, and a held body above it fails with 413.
func (s higressStream) HoldBody(max int) {
	_ = proxywasm.SetProperty([]string{"set_decoder_buffer_limit"}, []byte(strconv.Itoa(max+bodySlack)))
}

// Steer implements Stream. Higress takes one host; its retries go to native balancing.
func (s higressStream) Steer(addr string, _ []string) error {
	return overrideHost(addr)
}

// Unsteer implements Stream: in Higress no header of a client can steer.
func (s higressStream) Unsteer() {}
