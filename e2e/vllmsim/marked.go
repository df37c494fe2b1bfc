package vllmsim

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// byteOrderMark may come before UTF-8 text.
const byteOrderMark = "\ufeff"

// readInTime is readBody within Tuning.BodyTimeoutMS. The error wraps os.ErrDeadlineExceeded when the body took longer.
func (s *Server) readInTime(w http.ResponseWriter, r *http.Request) (string, error) {
	timeout := s.Tuning().BodyTimeoutMS
	if timeout == 0 {
		return readBody(w, r)
	}
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(time.Duration(timeout * float64(time.Millisecond)))); err != nil {
		return "", err
	}
	body, err := readBody(w, r)
	if err != nil {
		return "", err
	}
	return body, control.SetReadDeadline(time.Time{})
}

// statusWanted returns the failure that a body orders with its key sim_status, 400 to 599, or 0. The body need not be
// valid JSON otherwise: engines fail on some that are not.
func statusWanted(body string) int {
	if !strings.Contains(body, `"sim_status"`) {
		return 0
	}
	if status := gjson.Get(body, "sim_status").Int(); status >= 400 && status <= 599 {
		return int(status)
	}
	return 0
}

// lenient returns valid JSON for a body that only Python accepts.
func lenient(body string) string {
	return strings.NewReplacer(":NaN", ":null", ": NaN", ": null").Replace(strings.TrimPrefix(body, byteOrderMark))
}

// messagesPath is the route of Anthropic's API, countPath that of its call which counts the tokens of a request.
const (
	messagesPath = "/v1/messages"
	countPath    = messagesPath + "/count_tokens"
)

// asMessages makes r a request in Anthropic's API. Its key sim_tool_input has an answer that is not streamed call a
// tool with that input.
func (r *completionRequest) asMessages(body string) {
	r.dialect, r.toolInput = &messages, gjson.Get(body, "sim_tool_input").Raw
}

// sendMessage sends the answer as one JSON document of Anthropic's API.
func (a *answer) sendMessage() int {
	a.buf = append(a.buf[:0], `{"id":"msg_`...)
	a.buf = strconv.AppendInt(a.buf, a.id, 16)
	a.add(`","type":"message","role":"assistant","model":`, a.req.model, `,"content":[`)
	why := "max_tokens"
	if input := a.req.toolInput; input != "" {
		why = "tool_use"
		a.add(`{"type":"tool_use","id":"toolu_1","name":"tool","input":`, input, `}`)
	} else {
		a.add(`{"type":"text","text":"`)
		for i := range a.tokens {
			a.buf = append(a.buf, wordOf(a.textSeed, i)...)
		}
		a.add(`"}`)
	}
	a.add(`],"stop_reason":"`, why, `","stop_sequence":null,"usage":{"input_tokens":`)
	a.buf = strconv.AppendInt(a.buf, int64(a.req.promptLen), 10)
	a.add(`,"output_tokens":`)
	a.buf = strconv.AppendInt(a.buf, int64(a.tokens), 10)
	a.add(`}}`)
	return writeJSON(a.w, http.StatusOK, a.buf)
}
