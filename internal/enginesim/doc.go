// Package enginesim is a model of an LLM engine, vLLM's, in virtual time. It has no clock, no goroutines and no
// network: the caller says what time it is, and when steps begin and end. Times are since a moment that the caller
// chooses, and never go back. The same calls with the same times give the same schedule.
//
// # The model
//
// An engine runs steps. A step decodes one token for every running request and fills what is left of its token budget
// with chunks of prompts (continuous batching with chunked prefill, as vLLM's scheduler does). At most
// Config.MaxNumSeqs requests run; the others wait, first come, first served. A step takes
//
//	prefill overhead × prompts started + prefill per token × uncached prompt tokens
//	  + decode step + decode per sequence × requests decoding
//
// so a long prompt delays the next token of every request and a larger batch decodes more slowly.
//
// The KV cache is paged: blocks of Config.BlockSize tokens, each named by the hash of its tokens and of all tokens
// before it. A prompt whose leading blocks are cached skips their prefill. Blocks of finished requests stay until the
// space is needed and are evicted least recently used first. When no block is free new requests wait, and a running
// request that cannot grow preempts the youngest one, which recomputes later.
//
// With Config.MaxLoras a batch has at most so many LoRA adapters. A request whose adapter has no room is passed over
// until one of them has no request left in the batch, and a step that needs an adapter the GPU does not hold takes
// Times.AdapterLoadMS longer.
//
// # Tokens
//
// There is no tokenizer: a token is four bytes of the prompt, the last one possibly fewer, and every generated token is
// four bytes of text. A conversation that sends an answer back verbatim therefore finds it in the cache, as with a real
// engine.
package enginesim
