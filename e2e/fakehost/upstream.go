package fakehost

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
	endpoints []*Endpoint
	next      int
}

// Add adds a healthy endpoint.
func (c *Cluster) Add(addr string) *Endpoint {
	e := &Endpoint{Addr: addr, Health: Healthy}
	c.endpoints = append(c.endpoints, e)
	return e
}

// Set makes the endpoints those of the cluster.
func (c *Cluster) Set(list []*Endpoint) { c.endpoints = list }

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
	DetailsFailStream       = "wasm_fail_stream"
	detailsRequestTooLarge  = "request_payload_too_large"
	detailsResponseTooLarge = "response_payload_too_large"
)
