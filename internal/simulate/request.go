package simulate

import (
	"time"

	"github.com/warmgate/warmgate/internal/simulate/engine"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/region"
)

// BytesPerToken is how long the text of a token is.
const BytesPerToken = 4

// Request is one request of a load.
type Request struct {
	Session uint64        // the same for all requests of a session, not 0
	Prompt  []engine.Part // must not be changed any more
	// OneMessage is set if the prompt is one message; else each part is one.
	OneMessage bool
	// OneText is set if that is one text of the completions API, whose end is cut finely, too.
	OneText bool
	Answer  int    // tokens of the answer
	Limit   int    // the client's limit on them, 0 for none
	Name    uint64 // of the prompt with the answer, for prompts that continue it; 0 if there will be none
	Warm    bool   // it only warms caches: it is in no figures but those of all requests
	Class   string // service class, where the configuration has classes
	Region  int    // where its user is, by the place among the regions of the [Layout]

	number int32
	front  int32         // gateway that has chosen for it
	server int32         // of the pool
	sent   time.Duration // by the client
	came   time.Duration // to that gateway
	placed time.Duration // after it has waited there
	waited time.Duration // there, and in the gateway that has forwarded it
	first  time.Duration
	call   engine.Request
	lease  lease
	trip   trip
	prompt *Request // the part that computes the prompt in another pool, nil for none
	answer *Request // of such a part: the request
}

// Server is the place of the engine that was chosen, in its pool.
func (r *Request) Server() int { return int(r.server) }

// Sent is when the client has sent the request.
func (r *Request) Sent() time.Duration { return r.sent }

// TTFT is how long the first token took to come from the engine, without the way to a user far away.
func (r *Request) TTFT() time.Duration { return r.first - r.sent }

// Cached is how many tokens of the prompt were in the engine's cache.
func (r *Request) Cached() int { return r.call.Cached() }

// trip is how a request was forwarded to another region.
type trip struct {
	away   bool
	from   int           // gateway that has sent it
	peer   int           // where to, by the place among the peers
	way    time.Duration // of the request, and of each part of the answer
	at     time.Duration // when it was sent
	prompt *lb.Prefix
	had    int // blocks of the prompt that were sent there before
}

// lease is what product keeps with a request.
type lease struct {
	id       lb.LeaseID
	plan     lb.Plan
	planned  time.Duration
	granted  lb.Grant
	bytes    int
	prompt   int64 // tokens that were expected of the prompt
	output   int64 // tokens that were expected of the answer
	lost     bool
	waits    bool // in the store
	measured bool // its answer is read for its usage
	staying  region.Staying
}
