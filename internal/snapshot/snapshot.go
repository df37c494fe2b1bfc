// Package snapshot is what gateways know at one time, for a report of a problem or to be looked at: what the gateway's
// administration says, the plugin's statistics and state, and the view that gateways share in Redis. Secrets are left
// out.
package snapshot

import (
	"encoding/json"
	"time"

	"github.com/warmgate/warmgate/internal/state"
)

// Format is the number of this form; see [state.Format].
const Format = 1

// Snapshot is what gateways know at one time.
type Snapshot struct {
	Format   int       `json:"format"`
	Program  string    `json:"program"` // version of warmgate that has taken it
	At       time.Time `json:"at"`
	Gateways []Gateway `json:"gateways"`
	Redis    *Redis    `json:"redis,omitempty"`
}

// Gateway is one gateway.
type Gateway struct {
	Name       string            `json:"name"`
	Region     string            `json:"region,omitempty"`   // as whoever took the snapshot calls it
	Problems   []string          `json:"problems,omitempty"` // what could not be read, and why
	Server     *Server           `json:"server,omitempty"`
	Clusters   []Cluster         `json:"clusters,omitempty"`
	Statistics []Statistic       `json:"statistics,omitempty"` // of the plugin
	Configs    []json.RawMessage `json:"configurations,omitempty"`
	State      *state.State      `json:"state,omitempty"`
}

// Server is the gateway's process.
type Server struct {
	Version string `json:"version"`
	State   string `json:"state"`
	UptimeS int64  `json:"uptime_s"`
	Workers int    `json:"workers,omitempty"`
}

// Cluster is one of the gateway's, as its administration shows it.
type Cluster struct {
	Name   string `json:"name"`
	Policy string `json:"policy,omitempty"` // of the gateway itself, such as least_request
	Hosts  []Host `json:"hosts"`
}

// Host is an endpoint of a cluster.
type Host struct {
	Addr   string `json:"addr"`
	Health string `json:"health"`
	Weight int    `json:"weight,omitempty"`
	Zone   string `json:"zone,omitempty"`
	Active int64  `json:"active"` // requests
	Total  int64  `json:"total"`  // requests, since the gateway knows the endpoint
}

// Statistic is one of the plugin's. A histogram has Buckets.
type Statistic struct {
	Name    string            `json:"name"`
	Labels  map[string]string `json:"labels,omitempty"`
	Value   float64           `json:"value"`
	Buckets []Bucket          `json:"buckets,omitempty"`
}

// Bucket is how many values of a histogram are at most UpTo. Value of the histogram is how many there are.
type Bucket struct {
	UpTo  float64 `json:"up_to"`
	Count int64   `json:"count"`
}

// Redis is the view that gateways share.
type Redis struct {
	Problems []string      `json:"problems,omitempty"`
	Version  string        `json:"version,omitempty"`
	Scopes   []SharedScope `json:"scopes,omitempty"`
}

// SharedScope is a cluster as it is counted in Redis.
type SharedScope struct {
	Name      string       `json:"name"`
	Owners    int          `json:"owners"` // VMs that are alive
	Endpoints []SharedLoad `json:"endpoints"`
	Waiting   int64        `json:"waiting"`
	Pages     int64        `json:"pages"` // of the prefix index that have something recorded
}

// SharedLoad is what all gateways have in flight at an endpoint.
type SharedLoad struct {
	Addr     string `json:"addr"`
	Requests int64  `json:"requests"`
	Tokens   int64  `json:"tokens"`
}
