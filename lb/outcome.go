package lb

import (
	"time"

	"github.com/warmgate/warmgate/lb/prompt"
)

// Verdict classifies the end of a request for the health of its endpoint. The weight of a failure depends on how often
// such requests fail elsewhere: see package health.
type Verdict uint8

// The verdicts.
const (
	Neutral  Verdict = iota // no information: the client disconnected early, or the gateway answered
	Success                 // 1xx to 3xx
	Overload                // 429, 503, or the client gave up waiting: lowers the weight, never ejects
	Retried                 // failed here and served elsewhere by a retry: as Overload, but a long series ejects
	Rejected                // any other 4xx: either the request or the endpoint may be wrong
	TimedOut                // no response within the gateway's timeout: a failure unless others were served then
	Failure                 // 5xx, reset, refused connection
)

// Outcome is how a request ended on the endpoint that served it, and what its answer reported about the KV cache there.
type Outcome struct {
	Addr           string
	Verdict        Verdict
	Client         uint64        // the same for all requests of one client; 0 if unknown, see health.Health.NeedsClient
	Model          uint64        // the same for all requests for one model; 0 if unknown
	WaitedFor      time.Duration // from the end of the request to the timeout, for TimedOut
	Busy           bool          // the endpoint is answering other requests now; for TimedOut and Retried
	PlannedAt      time.Duration // when the plan was made
	PromptTokens   int64         // tokens of the prompt; 0 if the answer does not report them
	ExpectedTokens int64         // of these, expected in the cache when the endpoint was chosen
	CachedTokens   int64         // of these, found in the cache
	API            prompt.API    // of the request: an engine may report cached tokens in one API only
	Source         uint64        // the same for all requests of one tenant, or with the same beginning of the prompt

	CountedTokens int64         // tokens that its lease counted; 0 if unknown
	PlannedPrompt int64         // tokens that its plan took the prompt for; 0 if unknown
	TTFT          time.Duration // time to first token, from the plan on; 0 for an answer in one part
	Duration      time.Duration // from the plan to the end of the answer; 0 if TTFT is

	// PerToken is how long an output token took: one behind the first of a stream, one of all of an answer in one
	// piece; 0 if unknown.
	PerToken     time.Duration
	OutputTokens int64   // of the answer; 0 if unknown
	Load         float64 // requests in flight at the endpoint when it was chosen, over its weight
	Streamed     bool    // the answer came in parts

	FirstPart time.Duration // from the placement to the first part of the answer, for cluster_metrics; 0 if unknown
	Whole     time.Duration // from the placement to the end of the request, for cluster_metrics; 0 if unknown
	Inflight  int64         // requests in flight there when it was placed, with it, for cluster_metrics; 0 if unknown
}
