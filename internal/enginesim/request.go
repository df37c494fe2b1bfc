package enginesim

import "time"

// state is where a request is in its life.
type state uint8

const (
	stateNew state = iota
	stateWaiting
	stateRunning
	stateFinished
	stateAborted
)

// Finish is how an answer ended, as vLLM's finished_reason label spells it.
type Finish string

// The ends of an answer.
const (
	FinishStop   Finish = "stop"   // the model ended it
	FinishLength Finish = "length" // it has as many tokens as it may
	FinishAbort  Finish = "abort"  // the client left
)

// Request is one request to an engine. Its fields are set before [Engine.Add] and not changed after.
type Request struct {
	// Prompt is text of BytesPerToken bytes a token. The engine appends the answer where its capacity has room.
	Prompt []byte
	// Tokens is the length of the answer, at least 1, and Finish how it ends then.
	Tokens int
	Finish Finish
	// Seed decides the text of the answer, see [Text].
	Seed uint64
	// Salt separates caches that must not be shared.
	Salt uint64
	// Adapter is the LoRA adapter, "" for none.
	Adapter string
	// Owner is what the caller keeps with the request.
	Owner any

	data         []byte // prompt, then every generated token
	promptTokens int

	state       state
	generated   int
	computed    int // leading tokens whose KV is in blocks
	started     bool
	chain       []uint64
	blocks      []int32
	named       int // leading blocks offered to the cache by name
	cached      int // prompt tokens found in the cache at first admission
	preemptions int
	queued      bool // a step has left it waiting for a reason

	arrived, admitted, first, last time.Duration
}

// Generated is how many tokens of the answer exist.
func (r *Request) Generated() int { return r.generated }

// Cached is how many tokens of the prompt were in the cache when the request began to run.
func (r *Request) Cached() int { return r.cached }

// Done reports whether there will be no more tokens: the answer is complete, or was aborted.
func (r *Request) Done() bool { return r.state == stateFinished || r.state == stateAborted }

func (r *Request) tokens() int { return r.promptTokens + r.generated }
