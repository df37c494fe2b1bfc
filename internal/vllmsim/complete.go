package vllmsim

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/warmgate/warmgate/internal/enginesim"

	"github.com/cespare/xxhash/v2"
	"github.com/tidwall/gjson"
)

// busyMessage is what vLLM answers when its waiting queue is full.
const busyMessage = "The engine is currently busy and cannot accept new requests. Please try again later."

// complete serves a chat or text completion and returns the status it counts as.
func (s *Server) complete(w http.ResponseWriter, r *http.Request, chat bool) int {
	if r.Method != http.MethodPost {
		return writeError(w, http.StatusMethodNotAllowed, "MethodNotAllowed", "Method Not Allowed")
	}
	body, err := readInTime(w, r, s.Tuning().BodyTimeoutMS)
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
		req.dialect, req.toolInput = &messages, gjson.Get(body, "sim_tool_input").Raw
	case responsesPath:
		if req.dialect = &responses; !s.conversations.recall(&req) {
			return writeError(w, http.StatusNotFound, "invalid_request_error",
				fmt.Sprintf("Response with id '%s' not found.", req.previous))
		}
	}
	a := &answer{
		req: req, w: w, r: r,
		id:      s.started.UnixNano() + int64(s.ids.Add(1)),
		created: s.started.Unix(),
	}
	if report := s.cfg.Report; report != nil {
		a.report.Arrived = time.Now()
		defer func() {
			a.report.Prompt, a.report.Cached = a.req.promptLen, a.cached
			report(r, a.report)
		}()
	}
	if s.cfg.Instant {
		return s.instant(a)
	}
	return s.generate(a)
}

// instant answers without the engine.
func (s *Server) instant(a *answer) int {
	n, why := answerLength(a.req.maxTokens, s.cfg.MaxModelLen, s.cfg.OutputTokens, s.cfg.Seed)
	a.seed, a.tokens, a.finish = s.cfg.Seed, n, why
	s.runner.do(func(e *enginesim.Engine, _ time.Duration) { e.Bypass(a.req.promptLen, n, why) })
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
	a.seed = enginesim.Mix(s.cfg.Seed ^ xxhash.Sum64(a.req.prompt))
	a.tokens, a.finish = answerLength(a.req.maxTokens, room, s.cfg.OutputTokens, a.seed)
	q := &delivery{Request: enginesim.Request{
		Prompt: a.req.prompt, Salt: a.req.salt, Seed: a.seed, Tokens: a.tokens, Finish: a.finish,
		Adapter: s.adapterOf(a.req.model),
	}}
	if err := s.runner.submit(q); err != nil {
		return writeError(a.w, http.StatusServiceUnavailable, "ServiceUnavailableError", busyMessage)
	}
	// Frees it in the engine when the client leaves; after the end it does nothing.
	defer s.runner.do(func(e *enginesim.Engine, now time.Duration) { e.Abort(&q.Request, now) })
	resetAt := -1
	if t := s.Tuning(); t.Mode == ModeReset {
		resetAt = min(t.ResetAfterTokens, a.tokens)
	}
	if a.req.resetAfter > 0 {
		resetAt = min(a.req.resetAfter, a.tokens)
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
			if have == a.tokens && !a.lingers() {
				return statusGone
			}
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

// lingers waits as long as the request orders before the last part of its stream, and returns whether its client has
// not left meanwhile. The engine has finished by then.
func (a *answer) lingers() bool {
	if a.req.linger == 0 {
		return true
	}
	select {
	case <-time.After(a.req.linger):
		return true
	case <-a.r.Context().Done():
		return false
	}
}

// serves reports whether the server has the model of a request, which is its own if the request names none.
func (s *Server) serves(r *completionRequest) bool {
	if r.model == "" {
		r.model = s.model
	}
	name := gjson.Parse(r.model).Str
	return s.cfg.Adapters == nil || s.isOwn(name) || slices.Contains(s.cfg.Adapters, name)
}

// isOwn reports whether the server's own model has the name.
func (s *Server) isOwn(name string) bool {
	return name == s.cfg.Model || slices.Contains(s.cfg.Aliases, name)
}

// adapterOf returns the name of the adapter that a request for the model, a JSON string, is for.
func (s *Server) adapterOf(model string) string {
	name := gjson.Parse(model).Str
	if s.cfg.MaxLoras == 0 || s.isOwn(name) {
		return ""
	}
	return name
}

// conclude sends what follows the last token.
func (s *Server) conclude(a *answer, q *delivery) int {
	a.cached = q.Cached()
	if a.req.dialect == &responses {
		s.conversations.hold(a)
	}
	if a.req.stream {
		return a.end()
	}
	if format := a.r.Header.Get("endpoint-load-metrics-format"); format != "" {
		if v := s.loadReport(format); v != "" {
			a.w.Header().Set("endpoint-load-metrics", v)
		}
	}
	return a.sendWhole()
}

// loadReport is the load report of vLLM in the format requested, or "" if that is unknown.
func (s *Server) loadReport(format string) string {
	var g enginesim.Gauges
	s.runner.do(func(e *enginesim.Engine, _ time.Duration) { g = e.Gauges() })
	waiting, usage := pyFloat(float64(g.Waiting)), pyFloat(g.KVUsage)
	switch strings.ToUpper(format) {
	case "TEXT":
		return "TEXT named_metrics.num_requests_waiting=" + waiting + ", named_metrics.kv_cache_usage_perc=" + usage
	case "JSON":
		return `JSON {"named_metrics": {"num_requests_waiting": ` + waiting + `, "kv_cache_usage_perc": ` + usage + `}}`
	}
	return ""
}
