package config

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/region"
)

// Regions is how requests are forwarded to other regions. Its zero value: there are none.
type Regions struct {
	Name     string // of this region; "" for none
	Peers    []Peer
	Cluster  string        // of this region's own servers
	Header   string        // of the request, by which the route takes the cluster
	Interval time.Duration // between two probes of a peer
	Buffer   int           // requests that may wait in a region that others still forward to
	Secret   lb.Secret     // that all regions share
	Allowed  []string      // names of the peers that requests may be forwarded to; nil: all
	Memory   int           // of the index of forwarded prompts, in bytes
}

// Peer is another region.
type Peer struct {
	Name    string
	Cluster string        // that leads to its gateways
	RTT     time.Duration // of a round trip, until one was measured
}

// Enabled reports whether this gateway is one of a region.
func (r *Regions) Enabled() bool { return r.Name != "" }

// Forwards reports whether requests may be forwarded to a peer.
func (r *Regions) Forwards() bool {
	return len(r.Peers) > 0 && (r.Allowed == nil || len(r.Allowed) > 0)
}

// Board returns what the regions are for package region.
func (r *Regions) Board() region.Config {
	c := region.Config{Name: r.Name, Interval: r.Interval, Buffer: r.Buffer}
	for _, p := range r.Peers {
		c.Peers = append(c.Peers, region.Peer{Name: p.Name, Distance: p.RTT})
	}
	return c
}

// SameBoard reports whether the workers of both configurations share what they know of the peers.
func (r *Regions) SameBoard(other *Regions) bool {
	return r.Name == other.Name && r.Interval == other.Interval && r.Buffer == other.Buffer &&
		r.Secret == other.Secret && r.Memory == other.Memory && slices.Equal(r.Peers, other.Peers)
}
