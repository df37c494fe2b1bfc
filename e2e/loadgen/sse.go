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
}

// readEvents hands each event of a completion stream to each, until each returns false, the stream ends, or [DONE]
// comes. It reports whether [DONE] came; after [DONE] the stream is read to its end so that the connection can be used
// again.
func readEvents(r io.Reader, each func(event) bool) (done bool, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4096), maxEvent)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if !ok {
			continue // blank lines, comments, event and id fields
		}
		data = bytes.TrimSpace(data)
		if string(data) == "[DONE]" {
			_, err := io.Copy(io.Discard, r)
			return err == nil, err
		}
		ev, err := parseEvent(data)
		if err != nil {
			return false, err
		}
		if !each(ev) {
			return false, nil
		}
	}
	return false, lines.Err()
}

func parseEvent(data []byte) (event, error) {
	if !gjson.ValidBytes(data) {
		return event{}, fmt.Errorf("%w: %.80q", errMalformedEvent, data)
	}
	v := gjson.GetManyBytes(data, "choices.0.delta.content", "choices.0.text", "usage", "error")
	ev := event{text: v[0].String() + v[1].String()}
	if v[2].IsObject() {
		ev.usage = parseUsage(v[2])
	}
	if v[3].Exists() && v[3].Type != gjson.Null {
		ev.failed, ev.detail = true, v[3].Raw
	}
	return ev, nil
}

// parseAnswer reads a completion, or a message of Anthropic's API, that was not streamed. It reports false if it is
// neither.
func parseAnswer(body []byte) (Usage, bool) {
	if !gjson.ValidBytes(body) {
		return Usage{}, false
	}
	v := gjson.GetManyBytes(body, "choices.#", "usage", "content.#")
	return parseUsage(v[1]), v[0].Int() > 0 || v[2].Int() > 0
}

func parseUsage(v gjson.Result) Usage {
	return Usage{
		Prompt:     int(v.Get("prompt_tokens").Int() + v.Get("input_tokens").Int()),
		Cached:     int(v.Get("prompt_tokens_details.cached_tokens").Int()),
		Completion: int(v.Get("completion_tokens").Int() + v.Get("output_tokens").Int()),
	}
}
