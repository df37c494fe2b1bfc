package higresshost

import (
	"encoding/json"
	"fmt"
)

// Health is the gateway's view of an endpoint, in the words of get_upstream_hosts.
type Health string

// The states of an endpoint. Only Healthy ones are balanced over; an override host may also be Degraded.
const (
	Healthy   Health = "Healthy"
	Degraded  Health = "Degraded"
	Unhealthy Health = "Unhealthy"
)

// Endpoint is one model server of a cluster. Its fields may be changed at any time.
type Endpoint struct {
	Addr    string // ip:port
	Health  Health
	Metrics string // raw text that the health check stored; "" without store_metrics
	Refuses bool   // connections are refused: the request never reaches it

	active int
	total  int
	peak   int
}

// Active returns the requests that are on the endpoint now, with which a plugin's counter is compared.
func (e *Endpoint) Active() int { return e.active }

// Peak returns the most requests that were on the endpoint at once.
func (e *Endpoint) Peak() int { return e.peak }

// Total returns the requests that ever reached the endpoint, retries included.
func (e *Endpoint) Total() int { return e.total }

// Cluster is a set of endpoints with the gateway's own balancing: round robin over the healthy ones.
type Cluster struct {
	name      string
	endpoints []*Endpoint
	next      int
}

// Cluster returns the cluster of that name; it is created empty on first use.
func (g *Gateway) Cluster(name string) *Cluster {
	c := g.clusters[name]
	if c == nil {
		c = &Cluster{name: name}
		g.clusters[name] = c
	}
	return c
}

// Add adds a healthy endpoint.
func (c *Cluster) Add(addr string) *Endpoint {
	e := &Endpoint{Addr: addr, Health: Healthy}
	c.endpoints = append(c.endpoints, e)
	return e
}

// Remove takes an endpoint out of discovery; requests on it go on. It reports whether it was there.
func (c *Cluster) Remove(addr string) bool {
	for i, e := range c.endpoints {
		if e.Addr == addr {
			c.endpoints = append(c.endpoints[:i:i], c.endpoints[i+1:]...)
			return true
		}
	}
	return false
}

// Endpoint returns the endpoint with that address, or nil.
func (c *Cluster) Endpoint(addr string) *Endpoint {
	for _, e := range c.endpoints {
		if e.Addr == addr {
			return e
		}
	}
	return nil
}

// Endpoints returns all endpoints in the order in which they were added.
func (c *Cluster) Endpoints() []*Endpoint { return c.endpoints }

// native is the cluster's own load balancing; nil without a healthy endpoint.
func (c *Cluster) native() *Endpoint {
	for range c.endpoints {
		e := c.endpoints[c.next%len(c.endpoints)]
		c.next++
		if e.Health == Healthy {
			return e
		}
	}
	return nil
}

// hostPairs is the answer of get_upstream_hosts.
func (c *Cluster) hostPairs() [][2]string {
	var out [][2]string
	for _, e := range c.endpoints {
		state, err := json.Marshal(map[string]string{"health_status": string(e.Health), "metrics": e.Metrics})
		if err != nil {
			panic(fmt.Sprintf("higresshost: host state: %v", err)) // strings always marshal
		}
		out = append(out, [2]string{e.Addr, string(state)})
	}
	return out
}

// The response flags of Envoy that the router and the connection manager set.
const (
	FlagNoHealthyUpstream   = 0x2
	FlagUpstreamReset       = 0x10
	FlagUpstreamConnect     = 0x20
	FlagDownstreamReset     = 0x4000
	FlagStreamIdleTimeout   = 0x10000
	FlagNoClusterFound      = 0x2000000
	detailsNoHealthy        = "no_healthy_upstream"
	detailsConnect          = "upstream_reset_before_response_started{connection_failure}"
	detailsClusterNotFound  = "cluster_not_found"
	detailsUpstreamReset    = "upstream_reset_before_response_started{remote_reset}"
	detailsUpstreamCut      = "upstream_reset_after_response_started{remote_reset}"
	detailsClientGone       = "downstream_remote_disconnect"
	detailsIdle             = "stream_idle_timeout"
	detailsViaUpstream      = "via_upstream"
	detailsFailStream       = "wasm_fail_stream"
	detailsRequestTooLarge  = "request_payload_too_large"
	detailsResponseTooLarge = "response_payload_too_large"
)

// pick is the router's choice for the first attempt.
func (s *Stream) pick() *Endpoint {
	c := s.gw.clusters[s.cluster]
	if s.override != "" {
		e := c.Endpoint(s.override)
		if e != nil && e.Health != Unhealthy {
			return e
		}
		if s.gw.opts.Profile.strictOverride() {
			return nil
		}
	}
	return c.native()
}

// routeHeaders is the router: the request's headers arrive at it.
func (s *Stream) routeHeaders(end bool) {
	if reply := s.gw.OnRoute; reply != nil {
		if code := reply(s); code != 0 {
			s.sendLocalReply(localReply{code: code, details: "later_filter"})
			return
		}
	}
	s.routed = true
	s.sent = Message{Headers: s.request.headers.clone(), End: end}
	if s.gw.clusters[s.cluster] == nil {
		s.sendLocalReply(localReply{code: 503, details: detailsClusterNotFound, flags: FlagNoClusterFound})
		return
	}
	s.attempt(s.pick())
}

// attempt sends the request to an endpoint, or answers for the router if there is none or it cannot be reached.
func (s *Stream) attempt(e *Endpoint) {
	s.attempts++
	s.endpoint = e
	switch {
	case e == nil:
		s.sendLocalReply(localReply{code: 503, details: detailsNoHealthy, flags: FlagNoHealthyUpstream})
	case e.Refuses:
		s.sendLocalReply(localReply{code: 503, details: detailsConnect, flags: FlagUpstreamConnect})
	default:
		s.onUpstream = true
		e.total++
		e.active++
		e.peak = max(e.peak, e.active)
	}
}

// leaveUpstream ends the request on its endpoint.
func (s *Stream) leaveUpstream() {
	if s.onUpstream {
		s.onUpstream = false
		s.endpoint.active--
	}
}

func (s *Stream) upstreamAddress() string {
	if s.endpoint == nil {
		return ""
	}
	return s.endpoint.Addr
}
