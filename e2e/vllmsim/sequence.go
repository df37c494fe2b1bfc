package vllmsim

import (
	"sync/atomic"
	"time"
)

// seqState is where a sequence is in its life.
type seqState uint8

const (
	seqNew seqState = iota
	seqWaiting
	seqRunning
	seqFinished
	seqAborted
)

// finish is how an answer ended, as vLLM's finished_reason label spells it.
type finish string

const (
	finishStop   finish = "stop"   // the model ended the answer
	finishLength finish = "length" // max_tokens was reached
	finishAbort  finish = "abort"  // the client left
)

// words are the texts of generated tokens, each bytesPerToken long.
const words = "the and for are but not you all any can had her was one our out day get has him " +
	"his how man new now old see two way who did its let put say she too use dad "

// sequence is one request inside the engine. All fields but the delivery ones belong to the
// scheduler; times are since the engine's start.
type sequence struct {
	data         []byte // prompt, then every generated token
	adapter      string // LoRA adapter, "" for none
	salt         uint64 // separates caches that must not be shared
	textSeed     uint64
	promptTokens int
	maxTokens    int
	reason       finish // how the answer ends when it is complete

	state       seqState
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

	// Delivery to the handler: how many tokens exist, whether there will be more, and a bell.
	produced atomic.Int64
	ended    atomic.Bool
	bell     chan struct{}
}

// newSequence makes the sequence of a prompt with an answer of maxTokens tokens, which ends for the reason given.
func newSequence(prompt []byte, salt, textSeed uint64, maxTokens int, reason finish) *sequence {
	return &sequence{
		data:         prompt,
		salt:         salt,
		textSeed:     textSeed,
		promptTokens: tokensOf(len(prompt)),
		maxTokens:    maxTokens,
		reason:       reason,
		bell:         make(chan struct{}, 1),
	}
}

// tokensOf is the number of tokens of n bytes of prompt; an empty prompt still has one (vLLM
// puts a start token before it).
func tokensOf(n int) int { return max(1, (n+bytesPerToken-1)/bytesPerToken) }

func (q *sequence) tokens() int { return q.promptTokens + q.generated }

// word is the text of the i-th generated token.
func (q *sequence) word(i int) string { return wordOf(q.textSeed, i) }

func wordOf(seed uint64, i int) string {
	k := int(mix(seed+uint64(i)) % uint64(len(words)/bytesPerToken))
	return words[k*bytesPerToken : (k+1)*bytesPerToken]
}

// ring notifies the handler that something changed. It never blocks: one pending ring is enough, since the handler
// reads the counters after it.
func (q *sequence) ring() {
	select {
	case q.bell <- struct{}{}:
	default:
	}
}

// mix is the finalizer of SplitMix64: every input bit changes every output bit.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
