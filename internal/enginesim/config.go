package enginesim

import "cmp"

// Config describes an engine. A zero field takes the value that DefaultConfig gives it.
type Config struct {
	// MaxNumSeqs is how many requests run at once (vLLM: --max-num-seqs).
	MaxNumSeqs int
	// MaxQueued is how many may wait beyond the running ones before others are refused with ErrBusy (vLLM:
	// --max-num-queued-reqs). Negative means no limit.
	MaxQueued int
	// MaxBatchedTokens is the token budget of a step (vLLM: --max-num-batched-tokens).
	MaxBatchedTokens int
	// MaxModelLen is the longest prompt and answer together, in tokens. The caller keeps to it. It is never more than
	// the KV cache has room for.
	MaxModelLen int
	// BlockSize is the number of tokens of a KV block and NumBlocks how many there are.
	BlockSize, NumBlocks int
	// MaxLoras is how many LoRA adapters a batch may have and the GPU holds (vLLM: --max-loras). 0 means that there are
	// none.
	MaxLoras int
}

// DefaultConfig is an engine with 16k tokens of KV cache.
func DefaultConfig() Config {
	return Config{
		MaxNumSeqs:       16,
		MaxQueued:        256,
		MaxBatchedTokens: 2048,
		MaxModelLen:      8192,
		BlockSize:        16,
		NumBlocks:        1024,
	}
}

// WithDefaults returns the configuration without gaps.
func (c Config) WithDefaults() Config {
	d := DefaultConfig()
	c.MaxNumSeqs = cmp.Or(c.MaxNumSeqs, d.MaxNumSeqs)
	c.MaxQueued = cmp.Or(c.MaxQueued, d.MaxQueued)
	c.MaxBatchedTokens = cmp.Or(c.MaxBatchedTokens, d.MaxBatchedTokens)
	c.MaxModelLen = cmp.Or(c.MaxModelLen, d.MaxModelLen)
	c.BlockSize = cmp.Or(c.BlockSize, d.BlockSize)
	c.NumBlocks = cmp.Or(c.NumBlocks, d.NumBlocks)
	// A request that could never fit would wait forever.
	c.MaxModelLen = min(c.MaxModelLen, c.BlockSize*c.NumBlocks)
	return c
}

// Chain names the full blocks of a prompt, each with all before it.
func (c Config) Chain(salt uint64, prompt []byte) []uint64 {
	return extendChain(nil, salt, prompt, c.BlockSize*BytesPerToken)
}

// Usable is the part of the chain of a prompt of so many tokens that can come from the cache: the last token is always
// computed, since its output is the next token.
func (c Config) Usable(chain []uint64, tokens int) []uint64 {
	return chain[:min(len(chain), (tokens-1)/c.BlockSize)]
}
