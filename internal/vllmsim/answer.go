package vllmsim

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/warmgate/warmgate/internal/enginesim"
)

// answer writes one completion, whole or as a stream of server-sent events.
type answer struct {
	req     completionRequest
	w       http.ResponseWriter
	r       *http.Request
	id      int64
	created int64
	seed    uint64 // of the text
	tokens  int
	cached  int
	finish  enginesim.Finish
	buf     []byte
	report  Report
}

// begin sends the head of a stream, as vLLM does before the first token exists.
func (a *answer) begin() {
	h := a.w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	a.w.WriteHeader(http.StatusOK)
	if d := a.req.dialect; d != nil {
		a.buf = a.buf[:0]
		a.format(d.begin, "")
		a.write()
	}
	a.flush()
}

// sendTokens streams the tokens from..to-1, an event each.
func (a *answer) sendTokens(from, to int) {
	a.sending()
	defer a.sent(to)
	a.buf = a.buf[:0]
	for i := from; i < to; i++ {
		if d := a.req.dialect; d != nil {
			a.format(d.token, enginesim.Word(a.seed, i))
			continue
		}
		if a.req.chat && i == 0 {
			a.event(`{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}`)
		}
		a.head()
		if a.req.chat {
			a.add(`{"index":0,"delta":{"content":"`, enginesim.Word(a.seed, i), `"},"logprobs":null,"finish_reason":`)
		} else {
			a.add(`{"index":0,"text":"`, enginesim.Word(a.seed, i), `","logprobs":null,"finish_reason":`)
		}
		if i == a.tokens-1 {
			a.add(`"`, string(a.finish), `","stop_reason":null}]}`, "\n\n")
		} else {
			a.add("null}]}\n\n")
		}
	}
	a.write()
	a.flush()
}

// sending notes that output is sent.
func (a *answer) sending() {
	if a.report.First.IsZero() {
		a.report.First = time.Now()
	}
}

// sent notes that so many tokens of the answer were sent.
func (a *answer) sent(tokens int) { a.report.Last, a.report.Sent = time.Now(), tokens }

// end sends the usage, if requested, and the end mark, and returns the status it counts as.
func (a *answer) end() int {
	a.buf = a.buf[:0]
	switch d := a.req.dialect; {
	case d != nil:
		a.format(d.end, "")
	case a.req.usage:
		a.head()
		a.add(`],`)
		a.usage()
		a.add("}\n\n")
		fallthrough
	default:
		a.add("data: [DONE]\n\n")
	}
	a.write()
	if a.r.Context().Err() != nil {
		return statusGone
	}
	a.report.Whole = true
	return http.StatusOK
}

// sendWhole sends the answer as one JSON document.
func (a *answer) sendWhole() int {
	a.sending()
	defer a.sent(a.tokens)
	a.report.Whole = true
	if d := a.req.dialect; d != nil {
		content := fmt.Sprintf(d.part, enginesim.Text(a.seed, a.tokens))
		if a.req.toolInput != "" {
			content = `{"type":"tool_use","id":"toolu_1","name":"tool","input":` + a.req.toolInput + `}`
		}
		a.buf = a.buf[:0]
		a.format(d.whole, content)
		return writeJSON(a.w, http.StatusOK, a.buf)
	}
	a.buf = append(a.buf[:0], '{')
	if a.req.chat {
		a.meta("chatcmpl-", "chat.completion")
		a.add(`,"choices":[{"index":0,"message":{"role":"assistant","content":"`)
	} else {
		a.meta("cmpl-", "text_completion")
		a.add(`,"choices":[{"index":0,"text":"`)
	}
	a.buf = enginesim.AppendText(a.buf, a.seed, a.tokens)
	a.add(`"`)
	if a.req.chat {
		a.add(`}`)
	}
	a.add(`,"logprobs":null,"finish_reason":"`, string(a.finish), `","stop_reason":null}],`)
	a.usage()
	a.add(`}`)
	return writeJSON(a.w, http.StatusOK, a.buf)
}

// sendAndReset cuts the answer off with a connection reset. A stream, which has begun, gets the
// tokens from..to-1 before it.
func (a *answer) sendAndReset(from, to int) int {
	if a.req.stream {
		a.sendTokens(from, to)
	}
	resetConnection(a.w)
	return 0
}

// event appends a whole event with one choice.
func (a *answer) event(choice string) {
	a.head()
	a.add(choice, "]}\n\n")
}

// head appends an event up to the opening of its choices.
func (a *answer) head() {
	a.add(`data: {`)
	if a.req.chat {
		a.meta("chatcmpl-", "chat.completion.chunk")
	} else {
		a.meta("cmpl-", "text_completion")
	}
	a.add(`,"choices":[`)
}

func (a *answer) meta(prefix, object string) {
	a.add(`"id":"`, prefix)
	a.buf = strconv.AppendInt(a.buf, a.id, 16)
	a.add(`","object":"`, object, `","created":`)
	a.buf = strconv.AppendInt(a.buf, a.created, 10)
	a.add(`,"model":`, a.req.model)
}

func (a *answer) usage() {
	a.add(`"usage":{"prompt_tokens":`)
	a.buf = strconv.AppendInt(a.buf, int64(a.req.promptLen), 10)
	a.add(`,"total_tokens":`)
	a.buf = strconv.AppendInt(a.buf, int64(a.req.promptLen+a.tokens), 10)
	a.add(`,"completion_tokens":`)
	a.buf = strconv.AppendInt(a.buf, int64(a.tokens), 10)
	a.add(`,"prompt_tokens_details":{"cached_tokens":`)
	a.buf = strconv.AppendInt(a.buf, int64(a.cached), 10)
	a.add(`}}`)
}

func (a *answer) add(parts ...string) {
	for _, p := range parts {
		a.buf = append(a.buf, p...)
	}
}

// write sends the buffer; a failure shows in the request's context.
func (a *answer) write() { _, _ = a.w.Write(a.buf) }

func (a *answer) flush() { _ = http.NewResponseController(a.w).Flush() }

// format appends one of the forms of a dialect.
func (a *answer) format(form, text string) {
	why := "max_tokens"
	if a.req.toolInput != "" {
		why = "tool_use"
	}
	a.buf = fmt.Appendf(a.buf, form, a.id, a.req.model, a.req.promptLen, a.cached, a.tokens, text, why)
}
