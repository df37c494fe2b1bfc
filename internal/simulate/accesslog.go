package simulate

import (
	"time"

	"github.com/warmgate/warmgate/internal/accesslog"
	"github.com/warmgate/warmgate/internal/simulate/engine"
	"github.com/warmgate/warmgate/lb/prompt"
)

// AccessLog is an access log, as requests that can be played. What became of them does not matter: not how long they
// have waited, nor whether they were refused.
type AccessLog struct {
	Requests []LoggedRequest

	Unsized   int // lines of which nothing says how long the prompt was; they are not among the requests
	Estimated int // requests whose answers have not shown their usage: lengths are the gateway's estimates
	Alone     int // requests without a fingerprint: as if their prompts had nothing in common with others
}

// LoggedRequest is a request of the log, as it is played.
type LoggedRequest struct {
	Request
	At   time.Duration // since the first one
	Line *accesslog.Request
}

// FromLog returns the requests of a log.
func FromLog(log []accesslog.Request) *AccessLog {
	out := &AccessLog{}
	r := &logReader{
		bytes: map[string]int{}, tokens: map[string]int{}, forest: forest{blocks: map[blockName]*logBlock{}},
		sessions: map[*logBlock]uint64{}, answers: map[*logBlock]int{},
	}
	for i := range log {
		r.meet(&log[i])
	}
	r.forest.grow()
	for i := range log {
		line := &log[i]
		switch {
		case line.Prompt+line.Bytes == 0:
			out.Unsized++
			continue
		case len(line.Marks) == 0:
			out.Alone++
		}
		if !line.Served() {
			out.Estimated++
		}
		out.Requests = append(out.Requests, LoggedRequest{
			Request: r.request(line, uint64(i)), At: line.Start.Sub(log[0].Start), Line: line,
		})
	}
	return out
}

// Recording returns the load of the log.
func (a *AccessLog) Recording() *Recording {
	return &Recording{
		Requests: len(a.Requests), Speed: 1,
		at: func(i int) time.Duration { return a.Requests[i].At },
		request: func(i int) *Request {
			r := a.Requests[i].Request
			return &r
		},
	}
}

// logReader is what is known of a log while its requests are made of lines.
type logReader struct {
	forest        forest
	bytes, tokens map[string]int // of prompts of a model, "" for all, whose answers have shown their usage
	served        int            // answers that have
	output        int            // tokens of these

	sessions map[*logBlock]uint64 // of the latest request whose prompt ends with the block
	answers  map[*logBlock]int    // tokens of the answer to it
}

// meet takes over what a line says of all.
func (r *logReader) meet(line *accesslog.Request) {
	r.forest.plant(line.Marks)
	if !line.Served() {
		return
	}
	r.served++
	r.output += line.Output
	if line.Bytes == 0 {
		return
	}
	r.bytes[""] += line.Bytes
	r.tokens[""] += line.Prompt
	if line.Model != "" {
		r.bytes[line.Model] += line.Bytes
		r.tokens[line.Model] += line.Prompt
	}
}

// tokensIn returns how many tokens of a model so many bytes are. Of a refused request the model is not known.
func (r *logReader) tokensIn(bytes int, model string) int {
	if r.bytes[model] == 0 {
		model = ""
	}
	if b := r.bytes[model]; b > 0 {
		return int(float64(bytes) * float64(r.tokens[model]) / float64(b))
	}
	return bytes / BytesPerToken
}

// request returns the request of a line, of which i is the number.
func (r *logReader) request(line *accesslog.Request, i uint64) Request {
	q := Request{Session: name(i, 3), Class: line.Class, Answer: max(1, line.Output)}
	if line.Output == 0 && !line.Served() && r.served > 0 {
		q.Answer = max(1, r.output/r.served)
	}
	tail := max(line.Prompt, 1)
	if line.Prompt == 0 {
		tail = max(r.tokensIn(line.Bytes, line.Model), 1)
	}
	if n := len(line.Marks); n > 0 {
		path := r.forest.path(line.Marks[n-1])
		last := path[len(path)-1]
		q.Prompt = r.parts(path, line.Model)
		q.Session = r.sessionOf(path, q.Session)
		if tail = r.tokensIn(line.Bytes-last.end, line.Model); line.Bytes-last.end < prompt.MarkUnit {
			q.Name, tail = last.answerName(), 0
		}
		r.sessions[last], r.answers[last] = q.Session, q.Answer
	}
	if tail > 0 {
		q.Prompt = append(q.Prompt, engine.Part{Name: name(i, 8), Tokens: tail})
	}
	if line.Session != 0 {
		q.Session = name(line.Session, 4)
	}
	return q
}

// parts returns the parts of a prompt that has such blocks.
func (r *logReader) parts(path []*logBlock, model string) (parts []engine.Part) {
	at := 0
	for i, b := range path {
		if n := r.tokensIn(b.end, model) - r.tokensIn(at, model); n > 0 {
			parts = append(parts, engine.Part{Name: b.name, Tokens: n})
		}
		if at = max(at, b.end); i == len(path)-1 || b.answered <= at {
			continue
		}
		n := r.answers[b]
		if n == 0 {
			n = r.tokensIn(b.answered, model) - r.tokensIn(at, model)
		}
		parts, at = append(parts, engine.Part{Name: b.answerName(), Tokens: max(1, n), Answer: true}), b.answered
	}
	return parts
}

// sessionOf returns the session of a prompt: that of the latest request which it continues, else a new one.
func (r *logReader) sessionOf(path []*logBlock, other uint64) uint64 {
	for i := len(path) - 1; i >= 0; i-- {
		if s := r.sessions[path[i]]; s != 0 {
			return s
		}
	}
	return other
}
