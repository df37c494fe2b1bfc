//go:build envoy

package main

import (
	"encoding/base64"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/discovery"
)

const gatewayKind = config.Envoy

// The headers that carry the choice to Envoy. Client-sent ones are stripped in front of the plugin.
const (
	headerSession     = "x-warmgate-session"             // base64 of the endpoint: read by stateful_session, which knows health
	headerDestination = "x-gateway-destination-endpoint" // where retries go, in turn: read by override_host
)

// fixed names a cluster whose endpoints are in a configuration. Rules of one cluster may list different ones.
type fixed struct {
	config  *config.Config
	cluster string
}

// envoyGateway is stock Envoy: endpoints from its own admin interface or from the configuration, the choice by header.
type envoyGateway struct {
	sdkGateway
	admin   *adminPoller
	scraper *scraper
	static  *recent[fixed, *lb.View]
}

func newGateway() Gateway {
	g := &envoyGateway{
		admin: newAdminPoller(sharedData{}, rawRandom()), scraper: newScraper(sharedData{}, rawRandom()),
		static: newRecent[fixed, *lb.View](maxClusters),
	}
	g.admin.where = nodeZone
	return g
}

// nodeZone returns where Envoy is by its bootstrap.
func nodeZone() lb.Zone {
	return lb.Zone{Region: property("xds", "node", "locality", "region"), Name: property("xds", "node", "locality", "zone")}
}

func rawRandom() uint64 { return sdkGateway{}.Random() }

// View implements Gateway.
func (g *envoyGateway) View(now time.Duration, cluster string, c *config.Config) *lb.View {
	g.admin.serves = true
	if len(c.EnvoyCfg.Endpoints) == 0 {
		return g.admin.view(now, cluster)
	}
	key := fixed{c, cluster}
	if v, ok := g.static.get(now, key); ok {
		return v
	}
	v := &lb.View{Cluster: cluster}
	list := xxhash.New()
	for _, e := range c.EnvoyCfg.Endpoints {
		_, _ = list.WriteString(e.Addr + "\n")
		v.Endpoints = append(v.Endpoints, lb.Endpoint{Addr: e.Addr, Weight: e.Weight})
	}
	v.ListID = list.Sum64() | 1
	g.static.put(now, key, v)
	return v
}

// Divided implements Gateway. A rule that names the endpoints itself knows its part.
func (g *envoyGateway) Divided(cluster string, c *config.Config) bool {
	return len(c.EnvoyCfg.Endpoints) == 0 && g.admin.parts.names[cluster]
}

// Tick implements Gateway.
func (g *envoyGateway) Tick(now time.Duration, source *config.EnvoySource) {
	if source == nil && len(g.admin.views) == 0 {
		return
	}
	g.admin.follow(now) // also without a source of our own: other VMs may have one, and what is known must not grow old
	if source != nil && g.admin.due(now, source.PollInterval) {
		g.fetch(source)
	}
}

// page asks the admin interface for a page, and calls answered with the answer.
func page(source *config.EnvoySource, path string, answered func(body []byte, status string)) error {
	headers := [][2]string{{":method", "GET"}, {":path", path}, {":authority", "warmgate"}}
	return callOut("the admin interface's page "+path, func(run func(func())) error {
		_, err := proxywasm.DispatchHttpCall(source.AdminCluster, headers, nil, nil, adminTimeoutMillis, func(_, size, _ int) {
			run(func() {
				if size > discovery.MaxClustersText { // half of a page would be worse than that of a while ago
					answered(nil, tooLong)
					return
				}
				body, err := proxywasm.GetHttpCallResponseBody(0, size)
				if err != nil {
					body = nil
				}
				answered(body, callStatus())
			})
		})
		return err
	})
}

// fetch asks the admin interface for all clusters, and then for those that have subsets, so that of no new cluster the
// endpoints are known before that.
func (g *envoyGateway) fetch(source *config.EnvoySource) {
	err := page(source, "/clusters", func(clusters []byte, status string) {
		asked := g.Now()
		done := func() { now := g.Now(); g.complain(now, g.admin.fetched(now, clusters, status)) }
		if status != "200" || asked < g.admin.parts.next {
			done()
			return
		}
		withSubsets := func(body []byte, status string) {
			now := g.Now()
			if problem := g.admin.parts.fetched(now, now-asked, clusters, body, status); problem != "" {
				g.Log(Warn, problem)
			}
			done()
		}
		if page(source, subsetsPage, withSubsets) != nil {
			withSubsets(nil, refused) // the cluster's own filter answered within the call
		}
	})
	if err != nil {
		now := g.admin.asked
		g.admin.busy, g.admin.asked = false, 0 // at the next tick again: the gateway may be starting
		g.complain(now, "the admin cluster "+source.AdminCluster+" cannot be asked for endpoints: "+err.Error())
	}
}

// complain writes a problem with the admin interface to the log, unless that was done a moment ago. "" ends all
// problems.
func (g *envoyGateway) complain(now time.Duration, problem string) {
	if g.admin.news(now, problem) {
		g.Log(Warn, problem)
	}
}

func callStatus() string {
	headers, err := proxywasm.GetHttpCallResponseHeaders()
	if err != nil {
		return ""
	}
	for _, h := range headers {
		if h[0] == ":status" {
			return h[1]
		}
	}
	return ""
}

// envoyStream is a request in stock Envoy.
type envoyStream struct{ sdkStream }

func newGatewayStream() Stream { return envoyStream{} }

// Cluster implements Stream. The plain cluster_name is empty before routing in stock Envoy.
func (s envoyStream) Cluster() string { return property("xds", "cluster_name") }

// Route implements Stream.
func (s envoyStream) Route() string { return property("xds", "route_name") }

// HoldBody implements Stream: the listener's buffer limit, 1 MiB unless set, is far above what is held.
func (s envoyStream) HoldBody(int) {}

// ReleaseHeaders implements Stream. Envoy would else keep the part before it passes on the headers. A filter behind the
// plugin that limits the body sets its limit then, and what is kept by then and exceeds it makes Envoy stop reading in
// place of answering 413: such a body passes, or the request hangs.
func (s envoyStream) ReleaseHeaders() { s.Resume() }

// Steer implements Stream. The first choice goes through stateful_session, which leaves an endpoint alone that is
// unhealthy by now; retries follow the list of override_host.
func (s envoyStream) Steer(addr string, others []string) error {
	session := base64.StdEncoding.EncodeToString([]byte(addr))
	if err := proxywasm.ReplaceHttpRequestHeader(headerSession, session); err != nil {
		return err
	}
	if len(others) == 0 {
		return proxywasm.RemoveHttpRequestHeader(headerDestination)
	}
	return proxywasm.ReplaceHttpRequestHeader(headerDestination, strings.Join(others, ","))
}

// Unsteer implements Stream.
func (s envoyStream) Unsteer() {
	_ = proxywasm.RemoveHttpRequestHeader(headerSession)
	_ = proxywasm.RemoveHttpRequestHeader(headerDestination)
}
