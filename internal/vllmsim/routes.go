package vllmsim

import (
	"encoding/json"
	"io"
	"net/http"
)

// ServeHTTP implements http.Handler. Only Start runs the engine: a server that is used as a
// handler without it must be Instant.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("x-sim-id", s.index)
	if s.serveControl(w, r) {
		return
	}
	if s.cfg.Watch != nil {
		defer s.cfg.Watch(r)()
	}
	began := s.traffic.enter()
	status := 0 // stays 0 if the handler panics to reset an HTTP/2 stream
	defer func() { s.traffic.leave(r, began, status) }()
	status = s.serveModel(w, r)
}

// serveModel serves the routes of the model and returns the status it counts as.
func (s *Server) serveModel(w http.ResponseWriter, r *http.Request) int {
	t := s.Tuning()
	switch t.Mode {
	case ModeError:
		return writeError(w, t.ErrorStatus, "InternalServerError", "The simulated server fails.")
	case ModeHang:
		return s.hang(r)
	}
	switch r.URL.Path {
	case "/v1/chat/completions", messagesPath, responsesPath:
		return s.complete(w, r, true)
	case "/v1/completions":
		return s.complete(w, r, false)
	case "/tokenize", countPath:
		return s.tokenize(w, r)
	case "/v1/models":
		return s.models(w)
	case "/ws":
		return s.echoUpgrade(w, r)
	case "/sim.Echo/Call":
		return s.echoGRPC(w, r)
	case "/sim/echo":
		return s.echoDigest(w, r)
	}
	return writeError(w, http.StatusNotFound, "NotFoundError", "Not Found")
}

// models lists the models of the server, in vLLM's order: its own by all its names, then the adapters.
func (s *Server) models(w http.ResponseWriter) int {
	type model struct {
		ID      string  `json:"id"`
		Object  string  `json:"object"`
		Created int64   `json:"created"`
		OwnedBy string  `json:"owned_by"`
		Root    string  `json:"root"`
		Parent  *string `json:"parent"`
		Longest *int    `json:"max_model_len"`
	}
	list := struct {
		Object string  `json:"object"`
		Data   []model `json:"data"`
	}{Object: "list"}
	add := func(name string, parent *string, longest *int) {
		list.Data = append(list.Data, model{name, "model", s.started.Unix(), "vllm", name, parent, longest})
	}
	for _, name := range append([]string{s.cfg.Model}, s.cfg.Aliases...) {
		add(name, nil, &s.cfg.MaxModelLen)
	}
	for _, name := range s.cfg.Adapters {
		add(name, &s.cfg.Model, nil)
	}
	body, err := json.Marshal(list)
	if err != nil {
		panic(err) // strings and numbers always marshal
	}
	return writeJSON(w, http.StatusOK, body)
}

// serveControl serves what is not traffic to the model. It reports whether it did.
func (s *Server) serveControl(w http.ResponseWriter, r *http.Request) bool {
	switch r.URL.Path {
	case "/health":
		if s.Tuning().Mode == ModeSick {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	case "/metrics":
		if s.Tuning().MetricsHang {
			<-r.Context().Done()
			return true
		}
		w.Header().Set("Content-Type", "text/plain; version=1.0.0; charset=utf-8")
		_, _ = w.Write(s.metrics())
	default:
		return false
	}
	return true
}

// hang keeps a request until its client leaves or the server closes.
func (s *Server) hang(r *http.Request) int {
	// Only a body that has been read lets the server notice that the client has left.
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
	return statusGone
}
