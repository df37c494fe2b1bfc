package engine

import "time"

// Request is one request to an engine. Its fields are set before [Engine.Add] and not changed after.
type Request struct {
	Prompt []Part
	Answer int // tokens of the answer, at least 1
	// Name names the prompt with its answer, for prompts that continue it; 0 if there will be none.
	Name  uint64
	Owner any // what the caller keeps with the request
	// Computed is set if another engine has computed the prompt, and it was brought here: all but its last token, as
	// vLLM computes that again. If its memory is taken, it is computed here.
	Computed bool

	prompt    int // tokens
	computed  int // leading tokens of prompt and answer that are in memory
	generated int
	cached    int     // tokens of the prompt that were there when it began to run
	share     int     // tokens of the step under way
	entries   []int32 // of memory: those that were found, then those that were computed
	found     int
	own       int  // tokens of memory beside the entries
	named     int  // parts of the prompt that were offered as entries
	partly    bool // the last entry is a part of which the rest is not computed yet
	began     bool
	ran       bool // it has been in a batch
	arrived   time.Duration
	admitted  time.Duration
}

// Cached is how many tokens of the prompt were in the cache when the request began to run.
func (r *Request) Cached() int { return r.cached }

// PromptTokens is the length of the prompt, once it was added.
func (r *Request) PromptTokens() int { return r.prompt }

// Queued is for how long the request has waited in the engine.
func (r *Request) Queued() time.Duration { return r.admitted - r.arrived }

func (r *Request) tokens() int { return r.prompt + r.generated }

// held is how many tokens of memory the request has.
func (r *Request) held(c *kvCache) (n int) {
	for _, id := range r.entries {
		n += c.entries[id].kept
	}
	return n + r.own
}
