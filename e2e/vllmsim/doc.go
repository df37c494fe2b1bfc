// Package vllmsim is a simulated vLLM server: an OpenAI-compatible HTTP server whose latency, queueing and metrics
// follow from a model of the engine instead of a GPU.
//
// # The model
//
// An engine runs steps. A step decodes one token for every running sequence and fills what is left of its token budget
// with chunks of prompts (continuous batching with chunked prefill, as vLLM's scheduler does). At most
// Config.MaxNumSeqs sequences run; the others wait, first come, first served. A step takes
//
//	prefill overhead × prompts started + prefill per token × uncached prompt tokens
//	  + decode step + decode per sequence × sequences decoding
//
// so a long prompt delays the next token of every sequence and a larger batch decodes more slowly.
//
// The KV cache is paged: blocks of Config.BlockSize tokens, each named by the hash of its tokens and of all tokens
// before it. A prompt whose leading blocks are cached skips their prefill. Blocks of finished sequences stay until the
// space is needed and are evicted least recently used first. When no block is free new requests wait, and a running
// sequence that cannot grow preempts the youngest one, which recomputes later.
//
// With Config.MaxLoras a batch has at most so many LoRA adapters. A request whose adapter has no room is passed over
// until one of them has no request left in the batch, and a step that needs an adapter the GPU does not hold takes
// Tuning.AdapterLoadMS longer.
//
// # Tokens
//
// There is no tokenizer: a token is four bytes of the rendered prompt, the last one possibly fewer, and every generated
// token is four bytes of text. A conversation that sends an answer back verbatim therefore finds it in the cache, as
// with a real engine. A picture is 1105 tokens, which follow from its data or its address.
//
// # Steering and audits
//
// A Server is steered by SetTuning, SetMode and Reset; State has exact numbers of now, counts, and time spent queueing
// and idle. It answers, in any failure mode and without counting it as traffic:
//
//	GET  /health       200, or 503 when sick
//	GET  /metrics      vLLM's exposition; its gauges lag behind by up to a step, as vLLM's do
//
// Besides the OpenAI routes /v1/chat/completions, /v1/completions, /v1/responses and /v1/models, Anthropic's
// /v1/messages with /count_tokens, and vLLM's /tokenize, a model server here has /ws (echo after any HTTP/1.1 upgrade),
// /sim.Echo/Call (gRPC echo over HTTP/2 without TLS) and /sim/echo (length and SHA-256 of a body of any size), all
// subject to the failure mode.
//
// A request may order its own outcome: with "sim_status": 500 in its body, which need not be valid JSON otherwise, it
// gets that status at once, and an answer of /v1/messages that is not streamed calls a tool with the value of
// "sim_tool_input". Streams of /v1/messages and /v1/responses begin with events without output, at once.
//
// # Determinism
//
// Text and length of an answer depend on Config.Seed and the prompt alone, so equal servers give equal answers. Times
// are real, so the interleaving of concurrent requests is not.
package vllmsim
