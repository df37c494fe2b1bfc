package vllmsim

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cespare/xxhash/v2"
	"github.com/tidwall/gjson"
)

// statusGone is counted for a request whose client left before the end of the answer.
const statusGone = 499

// busyMessage is what vLLM answers when its waiting queue is full.
const busyMessage = "The engine is currently busy and cannot accept new requests. Please try again later."

// maxBody is the longest body a completion may have.
const maxBody = 64 << 20

// complete serves a chat or text completion and returns the status it counts as.
func (s *Server) complete(w http.ResponseWriter, r *http.Request, chat bool) int {
	if r.Method != http.MethodPost {
		return writeError(w, http.StatusMethodNotAllowed, "MethodNotAllowed", "Method Not Allowed")
	}
	body, err := s.readInTime(w, r)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		resetConnection(w)
		return 0
	case err != nil && r.Context().Err() != nil:
		return statusGone
	case err != nil:
		return writeError(w, http.StatusBadRequest, "BadRequestError", err.Error())
	}
	if status := statusWanted(body); status > 0 {
		return writeError(w, status, "InternalServerError", "The request asks for this.")
	}
	if s.cfg.Lenient {
		body = lenient(body)
	}
	req, err := parseRequest(body, chat, !s.cfg.Instant)
	if err != nil {
		return writeError(w, http.StatusBadRequest, "BadRequestError", err.Error())
	}
	if !s.serves(&req) {
		return writeNotFound(w, &req)
	}
	switch r.URL.Path {
	case messagesPath:
		req.asMessages(body)
	case responsesPath:
		if !s.recall(&req) {
			return writeError(w, http.StatusNotFound, "invalid_request_error",
				fmt.Sprintf("Response with id '%s' not found.", req.previous))
		}
	}
	a := &answer{
		req: req, w: w, r: r,
		id:      s.started.UnixNano() + int64(s.ids.Add(1)),
		created: s.started.Unix(),
	}
	if s.cfg.Instant {
		return s.instant(a)
	}
	return s.generate(a)
}

// copyBuffers are the buffers bodies pass through, *[]byte each.
var copyBuffers = sync.Pool{New: func() any {
	b := make([]byte, 32<<10)
	return &b
}}

// readBody returns the request body as a string.
func readBody(w http.ResponseWriter, r *http.Request) (string, error) {
	var b strings.Builder
	if n := r.ContentLength; n > 0 {
		b.Grow(int(min(n, maxBody)))
	}
	buf := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(buf)
	_, err := io.CopyBuffer(&b, http.MaxBytesReader(w, r.Body, maxBody), *buf)
	return b.String(), err
}

// instant answers without the engine.
func (s *Server) instant(a *answer) int {
	n, why := answerLength(a.req.maxTokens, s.cfg.MaxModelLen, s.cfg.OutputTokens, s.cfg.Seed)
	a.textSeed, a.tokens, a.reason = s.cfg.Seed, n, why
	s.engine.instant(a.req.promptLen, n, why)
	if a.req.stream {
		a.begin()
	}
	if t := s.Tuning(); t.Mode == ModeReset {
		return a.sendAndReset(0, min(n, t.ResetAfterTokens))
	}
	if !a.req.stream {
		return a.sendWhole()
	}
	a.sendTokens(0, n)
	return a.end()
}

// generate answers through the engine.
func (s *Server) generate(a *answer) int {
	room := s.cfg.MaxModelLen - a.req.promptLen
	if most := s.Tuning().AnswerTokens; most > 0 {
		a.req.maxTokens = min(a.req.maxTokens, most)
	}
	if room < max(1, a.req.maxTokens) {
		return writeError(a.w, http.StatusBadRequest, "BadRequestError", fmt.Sprintf(
			"This model's maximum context length is %d tokens. However, your request has %d input tokens "+
				"and asks for %d.",
			s.cfg.MaxModelLen, a.req.promptLen, a.req.maxTokens))
	}
	a.textSeed = mix(s.cfg.Seed ^ xxhash.Sum64(a.req.prompt))
	a.tokens, a.reason = answerLength(a.req.maxTokens, room, s.cfg.OutputTokens, a.textSeed)
	q := newSequence(a.req.prompt, a.req.salt, a.textSeed, a.tokens, a.reason)
	q.adapter = s.adapterOf(a.req.model)
	if err := s.engine.submit(q); err != nil {
		return writeError(a.w, http.StatusServiceUnavailable, "ServiceUnavailableError", busyMessage)
	}
	// Frees the sequence when the client leaves; after the end it does nothing.
	defer s.engine.abort(q)
	resetAt := -1
	if t := s.Tuning(); t.Mode == ModeReset {
		resetAt = min(t.ResetAfterTokens, a.tokens)
	}
	if a.req.stream {
		a.begin()
	}
	sent := 0
	for {
		// ended before produced: once it is true produced is final.
		ended := q.ended.Load()
		have := int(q.produced.Load())
		if resetAt >= 0 && have >= resetAt {
			return a.sendAndReset(sent, resetAt)
		}
		if a.req.stream && have > sent {
			a.sendTokens(sent, have)
			sent = have
		}
		if ended {
			break
		}
		select {
		case <-q.bell:
		case <-a.r.Context().Done():
			return statusGone
		}
	}
	return s.conclude(a, q)
}

// serves reports whether the server has the model of a request, which is its own if the request names none.
func (s *Server) serves(r *completionRequest) bool {
	if r.model == "" {
		r.model = s.model
	}
	return s.cfg.Adapters == nil || r.model == s.model || slices.Contains(s.cfg.Adapters, gjson.Parse(r.model).Str)
}

func writeNotFound(w http.ResponseWriter, r *completionRequest) int {
	return writeError(w, http.StatusNotFound, "NotFoundError",
		fmt.Sprintf("The model `%s` does not exist.", gjson.Parse(r.model).Str))
}

// adapterOf returns the name of the adapter that a request for the model, a JSON string, is for.
func (s *Server) adapterOf(model string) string {
	if s.cfg.MaxLoras == 0 || model == s.model {
		return ""
	}
	return gjson.Parse(model).Str
}

// conclude sends what follows the last token.
func (s *Server) conclude(a *answer, q *sequence) int {
	a.cached = q.cached
	if a.req.dialect == &responses {
		s.hold(a)
	}
	if a.req.stream {
		return a.end()
	}
	if format := a.r.Header.Get("endpoint-load-metrics-format"); format != "" {
		if v := s.engine.orca(format); v != "" {
			a.w.Header().Set("endpoint-load-metrics", v)
		}
	}
	return a.sendWhole()
}

// hang keeps a request until its client leaves or the server closes.
func (s *Server) hang(r *http.Request) int {
	// Only a body that has been read lets the server notice that the client has left.
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
	return statusGone
}

// orca is the load report of vLLM in the format requested, or "" if that is unknown.
func (e *engine) orca(format string) string {
	e.mu.Lock()
	waiting := pyFloat(float64(e.sched.shown.waiting))
	usage := pyFloat(e.sched.shown.kvUsage)
	e.mu.Unlock()
	switch strings.ToUpper(format) {
	case "TEXT":
		return "TEXT named_metrics.num_requests_waiting=" + waiting + ", named_metrics.kv_cache_usage_perc=" + usage
	case "JSON":
		return `JSON {"named_metrics": {"num_requests_waiting": ` + waiting + `, "kv_cache_usage_perc": ` + usage + `}}`
	}
	return ""
}

// instant counts a request answered without the scheduler.
func (e *engine) instant(promptTokens, outputTokens int, why finish) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sched.stats.instant(promptTokens, outputTokens, why)
}

// pyFloat writes a number as Python's repr does: always with a point or an exponent.
func pyFloat(v float64) string {
	s := strconv.FormatFloat(v, 'g', -1, 64)
	switch {
	case s == "+Inf" || s == "NaN":
		return s
	case !strings.ContainsAny(s, ".e"):
		return s + ".0"
	}
	return s
}
