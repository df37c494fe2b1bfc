// Package live is what is shown of running gateways: one frame after another, made of what gateways say of themselves.
// The terminal, the page and records of the page show the same frames.
package live

import "github.com/warmgate/warmgate/internal/state"

// Frame is what is shown of all gateways at one time. Rates are of the time since the frame before, shares and times of
// the last ten seconds.
type Frame struct {
	AtMS     int64     `json:"at_ms"`          // since 1970
	Note     string    `json:"note,omitempty"` // what is to be seen from here on, such as an act of the demo
	Gateways []Gateway `json:"gateways"`
}

// Gateway is one gateway.
type Gateway struct {
	Name      string           `json:"name"`
	Region    string           `json:"region,omitempty"`
	Version   string           `json:"version,omitempty"` // of the plugin
	Up        bool             `json:"up"`
	Problems  []string         `json:"problems,omitempty"` // what could not be read, and why
	Clusters  []Cluster        `json:"clusters"`
	Reasons   []Reason         `json:"reasons,omitempty"`
	Regions   []Region         `json:"regions,omitempty"`
	Decisions []state.Decision `json:"decisions,omitempty"` // new ones, and those of which more is known
}

// Cluster is one whose requests the plugin, or the gateway itself, places.
type Cluster struct {
	Name      string     `json:"name"`
	Policy    string     `json:"policy"`
	Unit      string     `json:"unit,omitempty"`
	Store     string     `json:"store,omitempty"`
	Endpoints []Endpoint `json:"endpoints"`
	Classes   []Class    `json:"classes,omitempty"`
	PerS      float64    `json:"requests_per_s"`
	RefusedS  float64    `json:"refused_per_s"`
	Expected  *float64   `json:"expected_cached,omitempty"` // share of prompt tokens; nil: not known
	Reported  *float64   `json:"reported_cached,omitempty"`
	TTFT      *Quantiles `json:"ttft_ms,omitempty"` // of decisions that are shown; nil: no first output was seen
}

// Quantiles are those of a number of requests.
type Quantiles struct {
	N   int     `json:"n"`
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
}

// Endpoint is a lane: a server with what runs and waits there.
type Endpoint struct {
	Addr      string   `json:"addr"`
	Zone      string   `json:"zone,omitempty"`
	Health    string   `json:"health"`
	Weight    float64  `json:"weight,omitempty"`
	Requests  int64    `json:"requests"` // in flight, as the plugin counts them, or the gateway where it does not
	Tokens    int64    `json:"tokens,omitempty"`
	Cap       int64    `json:"cap,omitempty"`
	PushLimit int64    `json:"push_limit,omitempty"`
	Running   *float64 `json:"running,omitempty"` // in the engine; nil: not known
	Waiting   *float64 `json:"waiting,omitempty"`
	KVCache   *float64 `json:"kv_cache,omitempty"` // share in use
}

// Class is a service class of a queue.
type Class struct {
	Name     string  `json:"name"`
	Waiting  int64   `json:"waiting"`
	RefusedS float64 `json:"refused_per_s"`
}

// Reason is how many requests were decided so.
type Reason struct {
	Policy string  `json:"policy"`
	Reason string  `json:"reason"`
	Total  int64   `json:"total"`
	PerS   float64 `json:"per_s"`
}

// Region is another region, as a gateway sees it.
type Region struct {
	Name       string  `json:"name"`
	Available  bool    `json:"available"`
	Adopted    bool    `json:"adopted,omitempty"`
	RTTMS      int64   `json:"rtt_ms"`
	ForwardedS float64 `json:"forwarded_per_s"`
	ServedS    float64 `json:"served_per_s"` // of its requests, here
}
