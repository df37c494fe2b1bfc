// Package measured says what is known of a request by the time that it is over: measured once, for statistics, the
// access log, spans and prices. What measures is in plugin/response and plugin/placement.
package measured

import (
	"time"

	"github.com/warmgate/warmgate/lb/price"
)

// Outcome is how a request has ended, for those who look at requests.
type Outcome uint8

// The outcomes.
const (
	OK           Outcome = iota // all of a good answer has passed
	ClientLeft                  // its client has left before its end
	ClientError                 // the server says that the request is to blame
	ServerFailed                // by the server, or for want of one
	Refused                     // by this plugin or the gateway, before it was sent to a server
	TimedOut                    // its time was over
	Outcomes                    // how many there are
)

var outcomeNames = [Outcomes]string{"ok", "client_left", "client_error", "server_failed", "refused", "timeout"}

func (o Outcome) String() string { return outcomeNames[o] }

// Request is one request that is over. What is not known is 0 or "".
//
// In time it has legs: [arrival] Wait [placed, sent on] Prefill [first output] Decode [latest output].
// TTFT = from arrival to first output, PerToken = Decode / (completion tokens - 1).
type Request struct {
	Cluster  string // the gateway's, in which it was served or would have been
	Endpoint string // that has served it
	Policy   string // lb_policy
	Class    string // of the queue
	Model    string // the name that the client has sent, if an endpoint has answered for it
	Asked    string // the name that the client has sent, whatever has come of it
	Tenant   string // by a header
	// Operation is what the model was asked to do, as OpenTelemetry names it: chat, text_completion, embeddings, "" for
	// what it has no name for.
	Operation string

	Outcome  Outcome
	Status   int
	Streamed bool
	Idle     bool // a call that computes nothing, such as a list of models
	Retries  int  // how often it was sent again

	Duration time.Duration // from arrival to end
	Wait     time.Duration // in the queue
	TTFT     time.Duration // of a stream, 0 where no output has come
	Prefill  time.Duration
	Decode   time.Duration
	PerToken time.Duration // of the output behind the first token
	GapP99   time.Duration // of the times between parts with output, the 99th percentile
	Parts    int64         // with output

	Tokens price.Tokens

	Cost     int64  // in billionths of the currency of the prices
	Currency string // of these, "" without prices
	Unpriced bool   // there are prices, and none of this model

	// of the choice
	Match    float64 // share of the prompt that was expected in the endpoint's KV cache
	Matches  bool    // there is a prompt that an endpoint can have in its cache
	RunnerUp string  // the endpoint that was next best
	LostBy   float64 // by how much it cost more, in the unit of the cost
	Rule     string  // what decided
	Target   string  // in_time or late: whether the answer is expected as soon as wanted; "" where that decides nothing
	Reason   string  // under which the request is counted: why it went where it did
}
