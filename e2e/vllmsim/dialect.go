package vllmsim

import (
	"fmt"
	"slices"
)

// dialect is how answers of an API are written, other than those of the completions APIs, as formats. Their arguments
// are the id of the answer, its model as JSON, the tokens of the prompt, those of them that were cached, the tokens of
// the answer, and a text: all of it, or one token. A stream begins at once, with events that have no output.
type dialect struct{ begin, token, end, whole string }

// messages is Anthropic's API. Answers that are not streamed do not report cached tokens, as vLLM's do not: see
// [answer.sendMessage].
var messages = dialect{
	begin: "event: message_start\ndata: " + `{"type":"message_start","message":{"id":"msg_%[1]x","type":"message",` +
		`"role":"assistant","model":%[2]s,"content":[]}}` + "\n\nevent: ping\ndata: " + `{"type":"ping"}` + "\n\n" +
		"event: content_block_start\ndata: " +
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + "\n\n",
	token: "event: content_block_delta\ndata: " +
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%[6]s"}}` + "\n\n",
	end: "event: content_block_stop\ndata: " + `{"type":"content_block_stop","index":0}` + "\n\n" +
		"event: message_delta\ndata: " + `{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":` +
		`{"input_tokens":%[3]d,"cache_read_input_tokens":%[4]d,"output_tokens":%[5]d}}` + "\n\n" +
		"event: message_stop\ndata: " + `{"type":"message_stop"}` + "\n\n",
}

const (
	responseHead  = `"response":{"id":"resp_%[1]x","object":"response","model":%[2]s,"status":`
	responseUsage = `"usage":{"input_tokens":%[3]d,"input_tokens_details":{"cached_tokens":%[4]d},"output_tokens":%[5]d}`
)

// responses is OpenAI's Responses API.
var responses = dialect{
	begin: "event: response.created\ndata: " + `{"type":"response.created",` + responseHead +
		`"in_progress","output":[]}}` + "\n\n",
	token: "event: response.output_text.delta\ndata: " +
		`{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"%[6]s"}` + "\n\n",
	end: "event: response.completed\ndata: " + `{"type":"response.completed",` + responseHead + `"completed",` +
		responseUsage + "}}\n\n",
	whole: `{"id":"resp_%[1]x","object":"response","model":%[2]s,"status":"completed","output":[{"type":"message",` +
		`"role":"assistant","content":[{"type":"output_text","text":"%[6]s"}]}],` + responseUsage + `}`,
}

// format appends one of the forms of a dialect.
func (a *answer) format(form, text string) {
	a.buf = fmt.Appendf(a.buf, form, a.id, a.req.model, a.req.promptLen, a.cached, a.tokens, text)
}

// responsesPath is the route of the Responses API.
const responsesPath = "/v1/responses"

// recall puts what the server holds of an answer, and of all before it, into the prompt of a request that follows it
// up. Tools and instructions are the request's own. It reports whether the answer is there.
func (s *Server) recall(r *completionRequest) bool {
	r.dialect = &responses
	if r.previous == "" {
		return true
	}
	s.mu.Lock()
	history, ok := s.held[r.previous]
	s.mu.Unlock()
	r.prompt = slices.Insert(r.prompt, min(r.lead, len(r.prompt)), history...)
	r.promptLen = tokensOf(len(r.prompt))
	return ok
}

// hold keeps the conversation up to the end of an answer for requests that follow it up.
func (s *Server) hold(a *answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[fmt.Sprintf("resp_%x", a.id)] = slices.Concat(a.req.prompt[a.req.lead:],
		[]byte(AnswerOf(a.textSeed, a.tokens)), []byte("\n"))
}
