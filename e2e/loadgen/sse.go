package loadgen

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/tidwall/gjson"
)

// maxEvent bounds one line of a stream, bytes.
const maxEvent = 1 << 20

var errMalformedEvent = errors.New("loadgen: malformed event")

// event is the content of one server-sent event of a completion stream.
type event struct {
	text   string // the piece of the answer that it carries
	failed bool   // it carries an error object
	detail string // the error object
	usage  Usage
	id     string // of an answer of the Responses API
	last   bool   // it ends the stream, as [DONE] does
}

// readEvents hands each event of a stream to each, until each returns false, the stream ends, or [DONE] comes, or what
// ends streams of other APIs. It reports whether that came; after it the stream is read to its end so that the
// connection can be used again.
func readEvents(r io.Reader, each func(event) bool) (done bool, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4096), maxEvent)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if !ok {
			continue // blank lines, comments, event and id fields
		}
		data = bytes.TrimSpace(data)
		ev := event{last: true}
		if string(data) != "[DONE]" {
			if ev, err = parseEvent(data); err != nil {
				return false, err
			}
			if !each(ev) {
				return false, nil
			}
		}
		if ev.last {
			_, err := io.Copy(io.Discard, r)
			return err == nil, err
		}
	}
	return false, lines.Err()
}

func parseEvent(data []byte) (event, error) {
	if !gjson.ValidBytes(data) {
		return event{}, fmt.Errorf("%w: %.80q", errMalformedEvent, data)
	}
	v := gjson.GetManyBytes(data, "choices.0.delta.content", "choices.0.text", "usage", "error", "type")
	ev := event{text: v[0].String() + v[1].String()}
	if v[4].Type == gjson.String {
		ev.typed(data, v[4].Str)
	}
	if v[2].IsObject() {
		ev.usage = parseUsage(v[2])
	}
	if v[3].Exists() && v[3].Type != gjson.Null {
		ev.failed, ev.detail = true, v[3].Raw
	}
	return ev, nil
}

// typed reads an event of Anthropic's API or of the Responses API.
func (ev *event) typed(data []byte, kind string) {
	switch kind {
	case "content_block_delta":
		ev.text = gjson.GetBytes(data, "delta.text").Str
	case "response.output_text.delta":
		ev.text = gjson.GetBytes(data, "delta").Str
	case "message_stop":
		ev.last = true
	case "response.completed":
		v := gjson.GetManyBytes(data, "response.id", "response.usage")
		ev.id, ev.usage, ev.last = v[0].Str, parseUsage(v[1]), true
	}
}

// parseAnswer reads a completion, a message of Anthropic's API, or a count of tokens, that was not streamed. It reports
// false if it is none of them.
func parseAnswer(body []byte) (Usage, bool) {
	if !gjson.ValidBytes(body) {
		return Usage{}, false
	}
	v := gjson.GetManyBytes(body, "choices.#", "usage", "content.#", "count", "input_tokens")
	return parseUsage(v[1]), v[0].Int() > 0 || v[2].Int() > 0 || v[3].Int() > 0 || v[4].Int() > 0
}

func parseUsage(v gjson.Result) Usage {
	return Usage{
		Prompt: int(v.Get("prompt_tokens").Int() + v.Get("input_tokens").Int()),
		Cached: int(v.Get("prompt_tokens_details.cached_tokens").Int() +
			v.Get("input_tokens_details.cached_tokens").Int() + v.Get("cache_read_input_tokens").Int()),
		Completion: int(v.Get("completion_tokens").Int() + v.Get("output_tokens").Int()),
	}
}
