// Package vllmsim is a simulated vLLM server: an OpenAI-compatible HTTP server whose latency, queueing and metrics
// follow from a model of the engine instead of a GPU.
//
// The engine is that of package enginesim, in real time, which see for queueing, batches, the KV cache and tokens. A
// picture is 1105 tokens, which follow from its data or its address.
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
// "sim_tool_input". With "sim_reset_after": 7 the connection is reset after so many tokens of the answer, and with
// "sim_linger_ms": 100 the last part of a stream comes so much later, which the engine knows nothing of. Streams of
// /v1/messages and /v1/responses begin with events without output, at once.
//
// # Determinism
//
// Text and length of an answer depend on Config.Seed and the prompt alone, so equal servers give equal answers. Times
// are real, so the interleaving of concurrent requests is not.
package vllmsim
