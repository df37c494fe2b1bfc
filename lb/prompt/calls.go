package prompt

import "strings"

// Call is what a call makes an engine do, as far as its method and its path show.
type Call uint8

// The kinds of calls.
const (
	// Computes is a call that occupies a model, or one of which nothing is known.
	Computes Call = iota
	// Bodiless is a call without a body that the table does not list: it brings nothing to compute.
	Bodiless
	// Idle is a call of the table that computes nothing, or does so on another machine.
	Idle
)

// callRule is what the calls with a method and an end of the path are.
type callRule struct {
	method string // "" for any
	path   string // its last segments; "*" stands for any one, and "*:name" for one with that end
	what   Call
}

// callRules is the table of known calls: the first rule that matches decides. docs/calls.md shows what engines do.
var callRules = [...]callRule{
	// APIs that compute, whatever the method: an engine refuses other ones
	{"", "/chat/completions", Computes},
	{"", "/completions", Computes},
	{"", "/responses", Computes},
	{"", "/messages", Computes},
	{"GET", "/health_generate", Computes}, // SGLang generates a token

	// the number of tokens, the tokens, or the text that a template makes: work of a CPU
	{"POST", "/tokenize", Idle},
	{"POST", "/detokenize", Idle},
	{"POST", "/chat_tokenize", Idle},
	{"POST", "/messages/count_tokens", Idle},
	{"POST", "/completions/input_tokens", Idle},
	{"POST", "/responses/input_tokens", Idle},
	{"POST", "/render", Idle},
	{"POST", "/apply-template", Idle},
	{"POST", "/models/*:countTokens", Idle},

	// what an engine keeps, and jobs that it does later
	{"POST", "/responses/*/cancel", Idle},
	{"POST", "/conversations", Idle},
	{"POST", "/conversations/*", Idle},
	{"POST", "/conversations/*/items", Idle},
	{"POST", "/files", Idle},
	{"POST", "/uploads", Idle},
	{"POST", "/uploads/*/*", Idle},
	{"POST", "/batches", Idle},
	{"POST", "/batches/*/cancel", Idle},
	{"POST", "/vector_stores", Idle},
	{"POST", "/vector_stores/*", Idle},
	{"POST", "/vector_stores/*/*", Idle},
	{"GET", "/responses/*", Idle},
	{"GET", "/responses/*/input_items", Idle},
	{"GET", "/conversations/*", Idle},
	{"GET", "/conversations/*/items", Idle},
	{"GET", "/conversations/*/items/*", Idle},
	{"GET", "/files", Idle},
	{"GET", "/files/*", Idle},
	{"GET", "/files/*/content", Idle},
	{"GET", "/batches", Idle},
	{"GET", "/batches/*", Idle},
	{"GET", "/batches/*/results", Idle},
	{"DELETE", "/responses/*", Idle},
	{"DELETE", "/conversations/*", Idle},
	{"DELETE", "/conversations/*/items/*", Idle},
	{"DELETE", "/files/*", Idle},
	{"DELETE", "/batches/*", Idle},

	// a small classifier beside the model
	{"POST", "/moderations", Idle},

	// models, adapters and their state
	{"GET", "/models", Idle},
	{"GET", "/models/*", Idle},
	{"DELETE", "/models/*", Idle},
	{"POST", "/load_lora_adapter", Idle},
	{"POST", "/unload_lora_adapter", Idle},
	{"", "/lora-adapters", Idle},
	{"GET", "/get_model_info", Idle},
	{"GET", "/model_info", Idle},
	{"GET", "/tokenizer_info", Idle},
	{"GET", "/api/tags", Idle},
	{"GET", "/api/ps", Idle},
	{"POST", "/api/show", Idle},
	{"POST", "/api/pull", Idle},
	{"POST", "/api/push", Idle},
	{"POST", "/api/create", Idle},
	{"POST", "/api/copy", Idle},
	{"DELETE", "/api/delete", Idle},
	{"", "/api/blobs/*", Idle},

	// the server
	{"GET", "/health", Idle},
	{"GET", "/healthz", Idle},
	{"GET", "/livez", Idle},
	{"GET", "/readyz", Idle},
	{"GET", "/ping", Idle},
	{"POST", "/ping", Idle},
	{"GET", "/health/live", Idle},
	{"GET", "/health/ready", Idle},
	{"GET", "/version", Idle},
	{"GET", "/metrics", Idle},
	{"GET", "/prometheus/metrics", Idle},
	{"GET", "/perf_metrics", Idle},
	{"GET", "/load", Idle},
	{"GET", "/get_load", Idle},
	{"GET", "/loads", Idle},
	{"GET", "/info", Idle},
	{"GET", "/server_info", Idle},
	{"GET", "/get_server_info", Idle},
	{"", "/props", Idle},
	{"GET", "/slots", Idle},
	{"POST", "/slots/*", Idle},
	{"", "/flush_cache", Idle},
	{"POST", "/reset_prefix_cache", Idle},
	{"POST", "/abort_request", Idle},
	{"POST", "/sleep", Idle},
	{"POST", "/wake_up", Idle},
	{"GET", "/is_sleeping", Idle},
	{"", "/start_profile", Idle},
	{"", "/stop_profile", Idle},
}

// CallOf returns what a call is, by its method and its path, which may have a query. bodiless is whether it has no
// body: of a call that the table does not list, one that brings none and wants to read or to delete computes nothing.
func CallOf(method, path string, bodiless bool) Call {
	path = plainPath(path)
	last := lastSegment(path)
	like := method
	if method == "HEAD" {
		like = "GET"
	}
	for i := range callRules {
		r := &callRules[i]
		if (r.method == "" || r.method == like) && endsLike(path, last, r.path) {
			return r.what
		}
	}
	if bodiless && (like == "GET" || method == "DELETE" || method == "OPTIONS") {
		return Bodiless
	}
	return Computes
}

// plainPath returns the path without its query and slashes at its end.
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
