package lb

import (
	"errors"
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb/prompt"
)

// State is what the gateway says of an endpoint.
type State uint8

// The states of an endpoint, from the gateway's health checks, discovery and outlier detection.
const (
	Healthy   State = iota
	Degraded        // usable where healthy endpoints are too few
	Unhealthy       // failed the gateway's active health check, or marked so by discovery
	Draining        // takes nothing new, and does not count among the endpoints that there are
	Ejected         // removed for a while by the gateway's outlier detection
)

// String returns the state's name as it appears in logs.
func (s State) String() string {
	switch s {
	case Healthy:
		return "healthy"
	case Degraded:
		return "degraded"
	case Unhealthy:
		return "unhealthy"
	case Draining:
		return "draining"
	case Ejected:
		return "ejected"
	}
	return "unknown"
}

// Endpoint is one model server of a cluster as the gateway sees it.
type Endpoint struct {
	Addr   string  // "ip:port", IPv6 in brackets: the address the gateway itself uses
	Weight float64 // capacity relative to the other endpoints; 0 counts as 1
	State  State

	Priority uint8 // 0 is the first; the others are for when it lacks endpoints
	Zone     Zone
}

// View is the state of one cluster at one moment. It is shared and must not be changed once published; a change of the
// cluster is a new View.
type View struct {
	Cluster   string
	Source    uint64 // which of several lists of its endpoints; a new view takes the place of the one before of it
	Endpoints []Endpoint
	Zone      Zone // the gateway's own
}

// Request is what a policy may know of a request.
type Request struct {
	PromptTokens int64          // estimated tokens of the prompt
	OutputTokens int64          // tokens the request may generate, or the configured guess
	Model        string         // that the request asks for, for endpoint_metrics
	Blocks       []prompt.Block // of the prompt, for prefix_cache
	PromptBytes  int            // of the prompt, in the unit of the blocks' ends
	Uncached     bool           // all of the prompt is computed, whatever is in the KV cache
	Tie          uint64         // random bits: so a plan stays a pure function of its inputs
}

// Unit is what a plan counts as load.
type Unit uint8

// The units of load.
const (
	Requests Unit = iota // requests in flight
	Tokens               // tokens in flight: prompt and expected output
)

// UnitNames are the names of the units in the configuration.
var UnitNames = []string{Requests: "requests", Tokens: "tokens"}

// String returns the unit's name in the configuration.
func (u Unit) String() string { return UnitNames[u] }

// UnmarshalText sets the unit to the one with the name.
func (u *Unit) UnmarshalText(name []byte) error {
	i := slices.Index(UnitNames, string(name))
	if i < 0 {
		return errors.New("lb: unknown unit " + string(name))
	}
	*u = Unit(i)
	return nil
}

// Load is the work in flight on one endpoint over all owners.
type Load struct {
	Requests int64
	Tokens   int64
}

// in returns the load in the unit u.
func (l Load) in(u Unit) float64 {
	if u == Tokens {
		return float64(l.Tokens)
	}
	return float64(l.Requests)
}

// Candidate is an endpoint a request may go to, and what load costs there.
type Candidate struct {
	Addr        string
	Base        float64 // cost of choosing the endpoint, whatever its load
	Slope       float64 // cost per unit of load and weight
	Weight      float64 // capacity, of which 1 is usual in the plan, less what health takes; must be above 0
	Cap         int64   // requests in flight at which the endpoint is full, 0 for no cap
	Capacity    float64 // load up to which no request waits there
	OverSlope   float64 // cost, beside Slope, per unit of weight and of the load beyond Room
	ZonePenalty float64 // cost of the way to another zone, in requests in flight; not in Base
	Tier        uint8   // a priority's healthy endpoints, or its degraded ones: retries had better stay there
}

// Plan is a policy's answer: where the request may go and what it adds while in flight. The candidates may be shared
// between plans and must not be changed.
type Plan struct {
	Scope      string // what is counted together: the cluster's name
	Candidates []Candidate
	Unit       Unit
	Tokens     int64  // tokens that the request adds while in flight; it always adds one request
	PerRequest int64  // what each request in flight costs beside its load, in the plan's unit
	Tie        uint64 // random bits that settle ties between equal costs
	Prefix     Prefix
}

// Prefix is what a plan says of its prompt, so that the request can go where the beginning of it is in the KV cache.
// The zero value asks for nothing of the kind.
type Prefix struct {
	Blocks      []prompt.Block // of the prompt, from its beginning
	Bytes       int            // of the prompt, in the unit of the blocks' ends
	Tokens      int64          // of the prompt: what need not be computed, and is not counted, where all of it is cached
	Credit      float64        // by how much the cost is lower where all of it is cached, if all is worth its length
	Wait        float64        // by which part Credit rises for each request at the candidate with the fewest: see Choose
	Worth       []uint32       // what it is worth to have the first blocks, up to each, in the unit of Length; nil: their length
	TTL         time.Duration  // for how long an endpoint is taken to keep what it has computed
	ShortTTL    []EndpointTTL  // endpoints that are taken to keep it for less; shared between plans
	MemoryBytes int            // bytes that the embedded store may use to remember who has what
	RedisBytes  int            // bytes that a store in Redis may use for that
}

// Share returns which part of the prompt the first n blocks are.
func (p *Prefix) Share(n int) float64 {
	if n == 0 {
		return 0
	}
	return float64(p.Blocks[n-1].End) / float64(p.Bytes)
}

// worth returns what it is worth to have the first n blocks, as a part of the prompt.
func (p *Prefix) worth(n int) float64 {
	if n == 0 || p.Worth == nil {
		return p.Share(n)
	}
	return float64(p.Worth[n-1]) / float64(p.Bytes)
}

// Work returns the tokens that the plan's request adds at an endpoint that has the first n blocks of its prompt.
func (p *Plan) Work(n int) int64 {
	saved := int64(float64(p.Prefix.Tokens) * p.Prefix.Share(n))
	return min(max(p.Tokens-saved, 0), maxTokens)
}

// added returns what the plan's request adds to a load, in the plan's unit.
func (p *Plan) added() float64 {
	if p.Unit == Tokens {
		return float64(min(max(p.Tokens, 0), maxTokens))
	}
	return 1
}

// Policy turns one request and one view of the endpoints into a plan. It does no I/O and reads no clock: the same
// inputs after the same plans and observations give the same plan. A policy serves one cluster.
type Policy interface {
	// Plan returns the plan and ReasonChosen, or the reason why native balancing should take the request.
	Plan(now time.Duration, r *Request, v *View) (Plan, Reason)
	// Observe tells how a request that was given to an endpoint went.
	Observe(now time.Duration, o Outcome)
}

// Verdict classifies the end of a request for the health of the endpoint that served it. How much a bad end weighs
// depends on where else such requests end badly: see [Health].
type Verdict uint8

// The verdicts.
const (
	Neutral  Verdict = iota // says nothing about the endpoint: the client left early, or the gateway answered
	Success                 // 1xx to 3xx
	Overload                // 429, 503, or the client gave up waiting: costs weight, never ejects
	Moved                   // tried, and served elsewhere by a retry: as Overload, until that goes on for long
	Refused                 // any other 4xx: the request may be wrong, or the endpoint
	TimedOut                // no response in the gateway's time: a failure unless others were served meanwhile
	Failure                 // 5xx, reset, refused connection
)

// Outcome is how a request went on the endpoint that served it, and what its answer reported about the KV cache there.
type Outcome struct {
	Addr           string
	Verdict        Verdict
	Client         uint64        // the same for all requests of one client, 0 when that is not known; see [Health.NeedsClient]
	Model          uint64        // the same for all requests for one model, 0 when that is not known
	WaitedFor      time.Duration // from the end of the request to that of TimedOut
	Busy           bool          // the endpoint is answering other requests at the moment; for TimedOut and Moved
	Planned        time.Duration // when the plan for it was made
	PromptTokens   int64         // of the prompt, 0 if the answer does not say
	ExpectedTokens int64         // of these, expected to be cached when the endpoint was chosen
	CachedTokens   int64         // of these, found in the cache
	Shape          prompt.Shape  // of the request: an engine may tell of cached tokens in one API and not in another
	Source         uint64        // the same for requests of one tenant, or with the same beginning

	Work     int64         // tokens that it was counted for, 0 when that is not known
	TTFT     time.Duration // from the plan to the first part of a streamed answer, 0 if that was its end and for others
	Duration time.Duration // from the plan to the end of the answer, 0 if First is
}
