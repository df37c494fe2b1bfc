package state

// Explanation is what would become of a request, and why. Nothing of it is counted, and it goes nowhere.
type Explanation struct {
	Format    int        `json:"format"`
	Version   string     `json:"version,omitempty"` // of the plugin in a gateway
	AtMS      int64      `json:"at_ms"`             // time of the gateway, since 1970
	Request   Request    `json:"request"`
	Decisions []Decision `json:"decisions"` // one; two if an endpoint is chosen inside the chosen cluster
}

// Request is what was read of a request.
type Request struct {
	Call      string `json:"call"`                 // what it makes an engine do: computes, idle and so on
	API       string `json:"api,omitempty"`        // "": not known
	Model     string `json:"model,omitempty"`      // "": not read, or not known
	Session   string `json:"session,omitempty"`    // given, or none; "": sessions do not matter
	Tenant    string `json:"tenant,omitempty"`     // likewise
	Stream    bool   `json:"stream,omitempty"`     // the answer is wanted as a stream
	BodyBytes int64  `json:"body_bytes"`           // that have come when it was decided
	ReadBytes int64  `json:"read_bytes"`           // of those, that were read for the prompt
	Unread    string `json:"unread,omitempty"`     // why not all of it
	TextBytes int64  `json:"text_bytes,omitempty"` // of the prompt, in what was read
	MaxTokens int64  `json:"max_tokens,omitempty"` // limit on its answer
}

// Plan is what a policy has planned for a request, before its store compares costs.
type Plan struct {
	Unit         string   `json:"unit"`                    // of costs: requests or tokens
	Adds         int64    `json:"adds"`                    // load of the request, where nothing of its prompt is cached
	PerRequest   int64    `json:"per_request,omitempty"`   // load of each request beside that
	Credit       float64  `json:"credit,omitempty"`        // for a full match, while a candidate is idle
	CreditGrowth float64  `json:"credit_growth,omitempty"` // of that, per request in flight where fewest are
	Home         []string `json:"home,omitempty"`          // where its session belongs, its first choices
	LoadFactor   float64  `json:"load_factor,omitempty"`   // of the home; 0: it settles ties alone, -1: without a bound
	MaxWaitMS    int64    `json:"max_wait_ms,omitempty"`   // in the queue
	Charge       int64    `json:"charge,omitempty"`        // tokens, with budgets
	Matches      string   `json:"matches,omitempty"`       // not_known: those in Redis are not looked up
	Target       *Target  `json:"target,omitempty"`
}

// Target is how soon an answer is to come, and what that changes.
type Target struct {
	TTFTMS     int64  `json:"ttft_ms,omitempty"`      // to the first token
	PerTokenUS int64  `json:"per_token_us,omitempty"` // for each one behind it
	Effect     string `json:"effect"`                 // none, weighed, or decided: another one would be chosen without
	Without    string `json:"without,omitempty"`      // the endpoint that would be
}

// Excluded is an endpoint of the cluster that is no candidate.
type Excluded struct {
	Addr string `json:"addr"`
	Why  string `json:"why"` // draining, unhealthy, degraded, ejected, model, or policy
}
