package vllmsim

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmgate/warmgate/internal/enginesim"
)

// Server is one simulated model server. Make it with New, then Start it.
type Server struct {
	cfg     Config
	index   string
	model   string // as a JSON string
	runner  *runner
	tuning  atomic.Pointer[Tuning]
	started time.Time
	ids     atomic.Uint64
	traffic traffic

	conversations conversations

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	http   *http.Server
	addr   string
	done   sync.WaitGroup
}

// New returns a server that is not listening yet. Its zero fields take the defaults of
// DefaultConfig; a Tuning that Validate refuses is a mistake of the program and panics.
func New(cfg Config) *Server {
	d := DefaultConfig()
	cfg.Model, cfg.OutputTokens = cmp.Or(cfg.Model, d.Model), cmp.Or(cfg.OutputTokens, d.OutputTokens)
	cfg.Tuning = cmp.Or(cfg.Tuning, d.Tuning)
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
		runner:  newRunner(cfg.Config, cfg.Tuning.times(), cfg.Fleet),
		started: time.Now(),
	}
	s.cfg.Config = s.runner.engine.Config() // without gaps
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
		s.runner.run(s.ctx)
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
	s.runner.leave()
	// Connections go first: a handler that saw the context end would finish its reply.
	err := s.http.Close()
	s.cancel()
	s.done.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Finish accepts no more connections, and returns when all requests in progress have ended, or the context has. Then
// Close is to be called.
func (s *Server) Finish(ctx context.Context) {
	_ = s.http.Shutdown(ctx) // what it reports is that the context has ended
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
	s.runner.do(func(e *enginesim.Engine, _ time.Duration) { e.SetTimes(t.times()) })
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
	s.conversations.forget()
	s.runner.do((*enginesim.Engine).Reset)
	s.traffic.reset()
}
