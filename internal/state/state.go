// Package state is what the plugin in a gateway shows of itself to those who may ask (lb_config.inspect): what it knows
// of clusters, endpoints and other regions, and the latest decisions. It has no text of a request.
package state

// Format is the number of this form. It grows when a field changes its meaning; new fields alone do not change it.
const Format = 1

// State is what one gateway knows. Counts are over all workers of the gateway, with Redis over all gateways.
type State struct {
	Format    int        `json:"format"`
	Version   string     `json:"version"` // of the plugin
	AtMS      int64      `json:"at_ms"`   // time of the gateway, since 1970
	VMs       int        `json:"vms"`     // that count requests and are alive
	Region    string     `json:"region,omitempty"`
	Clusters  []Cluster  `json:"clusters"`
	LeftOut   int        `json:"left_out,omitempty"`  // how many more clusters there are than are shown
	Regions   []Region   `json:"regions,omitempty"`   // the others
	Decisions []Decision `json:"decisions,omitempty"` // the latest, oldest first
	Lost      int64      `json:"lost,omitempty"`      // decisions that were dropped before an answer had them
}

// Cluster is one whose requests the plugin places.
type Cluster struct {
	Name      string     `json:"name"`
	Policy    string     `json:"policy"`
	Unit      string     `json:"unit"`  // of load: requests or tokens
	Store     string     `json:"store"` // that counts now: embedded, redis, or fallback while Redis does not answer
	Endpoints []Endpoint `json:"endpoints"`
	LeftOut   int        `json:"left_out,omitempty"` // how many more endpoints there are than are shown
	Classes   []Class    `json:"classes,omitempty"`  // of its queue
}

// Endpoint is a model server, or with lb_type cluster a cluster.
type Endpoint struct {
	Addr      string  `json:"addr"`
	Zone      string  `json:"zone,omitempty"`
	Health    string  `json:"health"` // healthy, degraded, unhealthy, draining; ejected, by the gateway or the plugin
	Weight    float64 `json:"weight"` // share of the work now, normalized to about 1; 0 while it gets no requests
	Requests  int64   `json:"requests"`
	Tokens    int64   `json:"tokens"`
	Cap       int64   `json:"cap,omitempty"` // requests in flight at which it takes no more
	TokenCap  int64   `json:"token_cap,omitempty"`
	PushLimit int64   `json:"push_limit,omitempty"` // learned by push: pending
	Engine    *Engine `json:"engine,omitempty"`     // of its latest metrics page, if it is fresh
}

// Engine is what a metrics page says.
type Engine struct {
	AgeMS   int64   `json:"age_ms"`
	Running float64 `json:"running"`
	Waiting float64 `json:"waiting"`
	KVCache float64 `json:"kv_cache"` // share in use, 0 to 1
}

// Class is a service class of a queue.
type Class struct {
	Name    string `json:"name"`
	Waiting int64  `json:"waiting"`
}

// Region is another region.
type Region struct {
	Name       string `json:"name"`
	Available  bool   `json:"available"`
	Adopted    bool   `json:"adopted,omitempty"`
	RTTMS      int64  `json:"rtt_ms"`
	ProbeAgeMS int64  `json:"probe_age_ms"` // since its last answer, -1 if there was none
}

// Decision is one choice for a request, and what has come of it as far as that is known. It is shown again, under the
// same ID, when more of it is known.
type Decision struct {
	ID       string `json:"id"`
	AtMS     int64  `json:"at_ms"` // of the decision, since 1970
	API      string `json:"api,omitempty"`
	Model    string `json:"model,omitempty"`
	Cluster  string `json:"cluster"`
	Policy   string `json:"policy"`
	Class    string `json:"class,omitempty"`
	Reason   string `json:"reason"`             // see docs/reasons.md
	Rule     string `json:"rule,omitempty"`     // that decided between candidates: cost, tie, home, budget, store or caps
	Endpoint string `json:"endpoint,omitempty"` // that was chosen
	Region   string `json:"region,omitempty"`   // to which it was forwarded

	WaitMS int64 `json:"wait_ms,omitempty"` // in the queue
	Prompt int64 `json:"prompt_tokens"`     // expected
	Output int64 `json:"output_tokens"`     // expected
	Blocks int   `json:"blocks,omitempty"`  // of the prompt, that were looked up

	Candidates []Candidate `json:"candidates,omitempty"` // the cheapest, cheapest first
	Others     int         `json:"others,omitempty"`     // candidates that are left out above

	// Of a request that is explained:
	Waits      bool       `json:"waits,omitempty"`       // it would wait in the queue
	ExpectedMS int64      `json:"expected_ms,omitempty"` // until it is likely to be placed, if it is not now
	Plan       *Plan      `json:"plan,omitempty"`
	Excluded   []Excluded `json:"excluded,omitempty"` // endpoints that are no candidates

	Ended  bool   `json:"ended,omitempty"`
	TTFTMS int64  `json:"ttft_ms,omitempty"` // from the request to the first output; 0: not known
	TookMS int64  `json:"took_ms,omitempty"` // from the request to the end
	Result string `json:"result,omitempty"`  // served, failed or other, as warmgate_cluster_requests_total has them
	Used   *Usage `json:"usage,omitempty"`   // reported by the engine
}

// Usage is what an engine has reported of a request, in tokens.
type Usage struct {
	Prompt int64 `json:"prompt"`
	Cached int64 `json:"cached"`
	Output int64 `json:"output"`
}

// Candidate is an endpoint that a request could have, and what it would have cost there: cost = base + load + over -
// credit, the terms of lb.Choose.
type Candidate struct {
	Addr     string  `json:"addr"`
	Cost     float64 `json:"cost"`
	Base     float64 `json:"base"`
	Load     float64 `json:"load"`            // slope × (load + per request + stall) / weight
	Stall    float64 `json:"stall,omitempty"` // the part of Load that is of requests which its prompt stalls
	Over     float64 `json:"over"`            // of requests above those that the engine runs at once, or answers in time
	Credit   float64 `json:"credit"`          // for the cached part of the prompt
	Matched  float64 `json:"matched"`
	Requests int64   `json:"requests"` // in flight there, before this one
	Tokens   int64   `json:"tokens"`
	Weight   float64 `json:"weight,omitempty"`
	Capacity float64 `json:"capacity,omitempty"` // requests above which each costs over: see Over
	Cap      int64   `json:"cap,omitempty"`      // requests in flight at which it takes no more
	TokenCap int64   `json:"token_cap,omitempty"`
	Full     bool    `json:"full,omitempty"`
}
