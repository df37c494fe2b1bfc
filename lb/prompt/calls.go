package prompt

import "strings"

// Call is what a call makes an engine do, as far as its method and its path show.
type Call uint8

// The kinds of calls.
const (
	// Computes is a call that occupies a model.
	Computes Call = iota
	// Unlisted is a call that the table does not list, taken for one that computes.
	Unlisted
	// Bodiless is a call without a body that the table does not list: it brings nothing to compute.
	Bodiless
	// Idle is a call of the table that computes nothing, or does so on another machine.
	Idle
	// Counts is such a call for the tokens of a prompt, by the tokenizer of a model that the endpoint must have.
	Counts
	// Quiet is an unlisted call that computes nothing, as its answers have shown.
	Quiet
)

// callRule is what the calls with a method and an end of the path are.
type callRule struct {
	path   string // its last segments; "*" stands for any one, and "*:name" for one with that end
	method byte   // the first letter of GET, POST or DELETE, 0 for any; OPTIONS is any, and HEAD is as GET
	what   Call
}

// callRules is the table of known calls: the first rule that matches decides. docs/calls.md shows what engines do.
var callRules = [...]callRule{
	// a list of answers that are kept
	{"/responses", 'G', Idle},

	// APIs that compute, whatever the method: an engine refuses other ones
	{"/chat/completions", 0, Computes},
	{"/completions", 0, Computes},
	{"/responses", 0, Computes},
	{"/messages", 0, Computes},
	{"/embeddings", 0, Computes},
	{"/generate", 0, Computes},
	{"/api/chat", 'P', Computes},          // Ollama
	{"/*:generateContent", 'P', Computes}, // Gemini, Vertex AI
	{"/*:streamGenerateContent", 'P', Computes},
	{"/audio/*", 'P', Computes},
	{"/health_generate", 'G', Computes}, // SGLang generates a token

	// the number of tokens, the tokens, or the text that a template makes: work of a CPU
	{"/tokenize", 'P', Counts},
	{"/detokenize", 'P', Counts},
	{"/chat_tokenize", 'P', Counts},
	{"/messages/count_tokens", 'P', Counts},
	{"/completions/input_tokens", 'P', Counts},
	{"/responses/input_tokens", 'P', Counts},
	{"/render", 'P', Counts},
	{"/apply-template", 'P', Counts},
	{"/*:countTokens", 'P', Counts},         // Gemini, Vertex AI
	{"/count-tokens:rawPredict", 'P', Idle}, // Vertex AI

	// what an engine keeps, and jobs that it does later
	{"/responses/*/cancel", 'P', Idle},
	{"/conversations", 'P', Idle},
	{"/conversations/*", 'P', Idle},
	{"/conversations/*/items", 'P', Idle},
	{"/files", 'P', Idle},
	{"/uploads", 'P', Idle},
	{"/uploads/*/*", 'P', Idle},
	{"/batches", 'P', Idle},
	{"/batches/*/cancel", 'P', Idle},
	{"/fine_tuning/jobs", 0, Idle},
	{"/fine_tuning/jobs/*", 'G', Idle},
	{"/fine_tuning/jobs/*/*", 0, Idle},
	{"/vector_stores", 'P', Idle},
	{"/vector_stores/*", 'P', Idle},
	{"/vector_stores/*/*", 'P', Idle},
	{"/responses/*", 'G', Idle},
	{"/responses/*/input_items", 'G', Idle},
	{"/conversations/*", 'G', Idle},
	{"/conversations/*/items", 'G', Idle},
	{"/conversations/*/items/*", 'G', Idle},
	{"/files", 'G', Idle},
	{"/files/*", 'G', Idle},
	{"/files/*/content", 'G', Idle},
	{"/batches", 'G', Idle},
	{"/batches/*", 'G', Idle},
	{"/batches/*/results", 'G', Idle},
	{"/responses/*", 'D', Idle},
	{"/conversations/*", 'D', Idle},
	{"/conversations/*/items/*", 'D', Idle},
	{"/files/*", 'D', Idle},
	{"/batches/*", 'D', Idle},

	// a small classifier beside the model
	{"/moderations", 'P', Idle},

	// models, adapters and their state
	{"/models", 'G', Idle},
	{"/models/*", 'G', Idle},
	{"/models/*", 'D', Idle},
	{"/models/load", 'P', Idle}, // llama.cpp
	{"/models/unload", 'P', Idle},
	{"/load_lora_adapter", 'P', Idle},
	{"/unload_lora_adapter", 'P', Idle},
	{"/lora-adapters", 0, Idle},
	{"/get_model_info", 'G', Idle},
	{"/model_info", 'G', Idle},
	{"/tokenizer_info", 'G', Idle},
	{"/api/tags", 'G', Idle},
	{"/api/ps", 'G', Idle},
	{"/api/show", 'P', Idle},
	{"/api/pull", 'P', Idle},
	{"/api/push", 'P', Idle},
	{"/api/create", 'P', Idle},
	{"/api/copy", 'P', Idle},
	{"/api/delete", 'D', Idle},
	{"/api/blobs/*", 0, Idle},

	// the server
	{"/health", 'G', Idle},
	{"/healthz", 'G', Idle},
	{"/livez", 'G', Idle},
	{"/readyz", 'G', Idle},
	{"/ping", 'G', Idle},
	{"/ping", 'P', Idle},
	{"/health/live", 'G', Idle},
	{"/health/ready", 'G', Idle},
	{"/version", 'G', Idle},
	{"/metrics", 'G', Idle},
	{"/prometheus/metrics", 'G', Idle},
	{"/perf_metrics", 'G', Idle},
	{"/load", 'G', Idle},
	{"/get_load", 'G', Idle},
	{"/loads", 'G', Idle},
	{"/info", 'G', Idle},
	{"/server_info", 'G', Idle},
	{"/get_server_info", 'G', Idle},
	{"/props", 0, Idle},
	{"/slots", 'G', Idle},
	{"/slots/*", 'P', Idle},
	{"/flush_cache", 0, Idle},
	{"/clear_hicache_storage_backend", 0, Idle},
	{"/reset_prefix_cache", 'P', Idle},
	{"/reset_mm_cache", 'P', Idle},
	{"/reset_encoder_cache", 'P', Idle},
	{"/kv_cache_events", 'P', Idle}, // TensorRT-LLM
	{"/abort_request", 'P', Idle},
	{"/abort_requests", 'P', Idle},
	{"/pause", 'P', Idle}, // vLLM
	{"/resume", 'P', Idle},
	{"/is_paused", 'G', Idle},
	{"/pause_generation", 'P', Idle}, // SGLang
	{"/continue_generation", 'P', Idle},
	{"/release_memory", 'P', Idle}, // TensorRT-LLM
	{"/resume_memory", 'P', Idle},
	{"/release_memory_occupation", 0, Idle}, // SGLang
	{"/resume_memory_occupation", 0, Idle},
	{"/update_weights", 'P', Idle},
	{"/update_weights_from_disk", 'P', Idle},
	{"/update_weights_from_tensor", 'P', Idle},
	{"/update_weights_from_distributed", 'P', Idle},
	{"/init_weights_update_group", 'P', Idle},
	{"/destroy_weights_update_group", 'P', Idle},
	{"/get_weights_by_name", 0, Idle},
	{"/collective_rpc", 'P', Idle},
	{"/scale_elastic_ep", 'P', Idle},
	{"/is_scaling_elastic_ep", 'P', Idle},
	{"/set_internal_state", 'P', Idle},
	{"/open_session", 0, Idle},
	{"/close_session", 0, Idle},
	{"/freeze_gc", 0, Idle},
	{"/configure_logging", 0, Idle},
	{"/parse_function_call", 'P', Idle},
	{"/separate_reasoning", 'P', Idle},
	{"/sleep", 'P', Idle},
	{"/wake_up", 'P', Idle},
	{"/is_sleeping", 'G', Idle},
	{"/start_profile", 0, Idle},
	{"/stop_profile", 0, Idle},
}

// CallOf returns what a call is, by its method and its path, which may have a query. bodiless is whether it has no
// body: of a call that the table does not list, one that brings none and wants to read or to delete computes nothing.
// OPTIONS, which browsers send before a call of another site, and HEAD without a body compute nothing anywhere.
func CallOf(method, path string, bodiless bool) Call {
	path = plainPath(path)
	last := lastSegment(path)
	like, asks := byte('?'), false
	switch method {
	case "GET", "POST", "DELETE":
		like = method[0]
	case "HEAD":
		like, asks = 'G', bodiless
	case "OPTIONS":
		asks = bodiless
	}
	for i := range callRules {
		r := &callRules[i]
		if end := r.path[len(r.path)-1]; end != '*' && (last == "" || end != last[len(last)-1]) {
			continue // most rules
		}
		switch {
		case r.method != 0 && r.method != like && (!asks || like == 'G') || !endsLike(path, last, r.path):
		case asks:
			return Idle
		default:
			return r.what
		}
	}
	if bodiless && (like == 'G' || like == 'D' || asks) {
		return Bodiless
	}
	return Unlisted
}

// APIPath returns what calls of one API have in common in their paths: what stands in front of a colon in the last
// segment, which names a call on a model; of a call of the kind Counts what it stands below, the path of the API whose
// prompts it counts; else all but the query.
func APIPath(path string, what Call) string {
	path = plainPath(path)
	last := lastSegment(path)
	switch at := strings.LastIndexByte(last, ':'); {
	case at >= 0:
		return path[:len(path)-len(last)+at]
	case what == Counts:
		return strings.TrimSuffix(path, "/"+last)
	}
	return path
}

// plainPath returns the path without its query and slashes at its end. It is not inlined, for the artifacts' size.
//
//go:noinline
func plainPath(path string) string {
	path, _, _ = strings.Cut(path, "?")
	return strings.TrimRight(path, "/")
}

// endsLike reports whether a path ends with the segments of a pattern. last is its last segment.
func endsLike(path, last, pattern string) bool {
	for {
		at := strings.LastIndexByte(pattern, '/')
		path = path[:len(path)-len(last)]
		if !isLike(last, pattern[at+1:]) || path == "" {
			return false
		}
		if pattern = pattern[:at]; pattern == "" {
			return true
		}
		path = path[:len(path)-1]
		last = lastSegment(path)
	}
}

// lastSegment returns what follows the last slash. It is not inlined, for the size of the artifacts.
//
//go:noinline
func lastSegment(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// isLike reports whether a segment of a path is what that of a pattern stands for.
func isLike(segment, pattern string) bool {
	if pattern[0] == '*' {
		return segment != "" && strings.HasSuffix(segment, pattern[1:])
	}
	return segment == pattern
}
