// Package engine is internal/enginesim's model of an LLM engine, made fast enough for a thousand engines and a million
// requests on one core. Two things are different.
//
// Steps that all take the same time are one event. While nothing but decoding is under way, every step decodes one
// token for each request and takes equally long, so the engine is next looked at when the first answer ends, memory may
// run out, or a request comes that can begin. Times are those of single steps: the tests hold that.
//
// Prompts are no text but parts, each named by all before its end, and the KV cache has an entry for each part, not for
// each block. Entries are evicted as blocks are: least recently used first, and from the end of a prompt. Of an entry
// that is evicted in part the beginning stays.
package engine
