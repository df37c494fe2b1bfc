package vllmsim

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Server is one simulated model server. Make it with New, then Start it.
type Server struct {
	cfg     Config
	index   string
	model   string // as a JSON string
	engine  *engine
	tuning  atomic.Pointer[Tuning]
	started time.Time
	ids     atomic.Uint64
	traffic traffic

	mu   sync.Mutex
	held map[string][]byte // conversations of the Responses API up to an answer, by its id

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	http   *http.Server
	addr   string
	done   sync.WaitGroup
}

// New returns a server that is not listening yet. Its zero fields take the defaults of
// DefaultConfig; a Tuning that Validate refuses is a mistake of the program and panics.
func New(cfg Config) *Server {
	cfg = cfg.withDefaults()
	if err := cfg.Tuning.Validate(); err != nil {
		panic("vllmsim: " + err.Error())
	}
	model, err := json.Marshal(cfg.Model)
	if err != nil {
		panic("vllmsim: " + err.Error())
	}
	s := &Server{
		cfg:     cfg,
		index:   strconv.Itoa(cfg.Index),
		model:   string(model),
		engine:  newEngine(cfg),
		started: time.Now(),
		held:    map[string][]byte{},
	}
	s.tuning.Store(&cfg.Tuning)
	s.traffic.clear()
	s.ctx, s.cancel = context.WithCancel(context.Background())
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	s.http = &http.Server{
		Handler:     s,
		Protocols:   &protocols,
		BaseContext: func(net.Listener) context.Context { return s.ctx },
		ConnState:   s.traffic.connState,
		// A client may send its headers as slowly as a test needs, but not forever.
		ReadHeaderTimeout: time.Minute,
	}
	return s
}

// Start listens on a TCP address ("127.0.0.1:0" picks a free port) and serves until Close.
func (s *Server) Start(addr string) error {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	s.addr = ln.Addr().String()
	s.done.Add(2)
	go func() {
		defer s.done.Done()
		s.engine.run(s.ctx)
	}()
	go func() {
		defer s.done.Done()
		// Serve returns when Close closes the listener; nothing else can end it.
		_ = s.http.Serve(ln)
	}()
	return nil
}

// Addr is the address the server listens on, host:port.
func (s *Server) Addr() string { return s.addr }

// URL is the server's base URL.
func (s *Server) URL() string { return "http://" + s.addr }

// Close stops the server and closes every connection. Requests in progress end as if the
// process had died.
func (s *Server) Close() error {
	s.engine.leave()
	// Connections go first: a handler that saw the context end would finish its reply.
	err := s.http.Close()
	s.cancel()
	s.done.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Tuning returns the current speed and failure mode.
func (s *Server) Tuning() Tuning { return *s.tuning.Load() }

// SetTuning changes speed and failure mode at once: for the requests that come, and for the
// steps that begin, after the call.
func (s *Server) SetTuning(t Tuning) error {
	if err := t.Validate(); err != nil {
		return err
	}
	s.tuning.Store(&t)
	s.engine.setTuning(t)
	return nil
}

// SetMode changes the failure mode alone.
func (s *Server) SetMode(m Mode) error {
	t := s.Tuning()
	t.Mode = m
	return s.SetTuning(t)
}

// Reset clears all counts, the prefix cache, the slots of adapters and the answers that are held. Requests in progress
// go on and stay counted as in flight.
func (s *Server) Reset() {
	s.mu.Lock()
	clear(s.held)
	s.mu.Unlock()
	s.engine.reset()
	s.traffic.reset()
}

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

func (s *Server) models(w http.ResponseWriter) int {
	b := append([]byte(`{"object":"list","data":[{"id":`), s.model...)
	b = append(b, `,"object":"model","created":`...)
	b = strconv.AppendInt(b, s.started.Unix(), 10)
	b = append(b, `,"owned_by":"vllm","root":`...)
	b = append(b, s.model...)
	b = append(b, `,"parent":null,"max_model_len":`...)
	b = strconv.AppendInt(b, int64(s.cfg.MaxModelLen), 10)
	return writeJSON(w, http.StatusOK, append(b, "}]}"...))
}

// writeJSON sends a reply and returns its status.
func writeJSON(w http.ResponseWriter, status int, body []byte) int {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	// A client that has left is noticed through the request's context.
	_, _ = w.Write(body)
	return status
}

// writeError sends an error as vLLM spells it.
func writeError(w http.ResponseWriter, status int, kind, message string) int {
	type detail struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    int     `json:"code"`
	}
	body, err := json.Marshal(map[string]detail{"error": {Message: message, Type: kind, Code: status}})
	if err != nil {
		panic(err) // strings and numbers always marshal
	}
	return writeJSON(w, status, body)
}
