package vllmsim

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// State is what a server knows about itself; the answer of GET /sim/state. Counts and times
// are since the start or the last Reset; running, waiting, in flight and connections are now.
type State struct {
	Index   int  `json:"index"`
	Mode    Mode `json:"mode"`
	Running int  `json:"running"`
	Waiting int  `json:"waiting"`
	// Queued is the part of Waiting that no free slot or KV block will take with the next step.
	Queued int `json:"queued"`
	// Inflight counts requests to the model from the moment their head has been read until
	// their handler ends; requests to /health, /metrics and /sim/ controls are not counted.
	Inflight    int64 `json:"inflight"`
	MaxInflight int64 `json:"max_inflight"`
	Connections int64 `json:"connections"`
	MaxRunning  int   `json:"max_running"`
	MaxQueued   int   `json:"max_queued"`
	Requests    int64 `json:"requests"`
	// Statuses counts ended requests. "499" is a client that left, "0" an answer that was reset.
	Statuses    map[string]int64 `json:"statuses"`
	Rejected    int64            `json:"rejected"`
	Preemptions int64            `json:"preemptions"`
	// QueuedRequests counts the requests that waited for want of a slot, a KV block or room for their
	// adapter, and AdapterLoads the adapters that were not loaded when a batch needed them.
	QueuedRequests int64   `json:"queued_requests"`
	AdapterLoads   int64   `json:"adapter_loads"`
	PromptTokens   int64   `json:"prompt_tokens"`
	CachedTokens   int64   `json:"cached_tokens"`
	OutputTokens   int64   `json:"output_tokens"`
	KVUsage        float64 `json:"kv_usage"`
	// WaitSeconds is the time all requests together spent waiting, QueuedSeconds the part of it
	// spent for want of a slot, a KV block or room for an adapter. IdleSeconds is the time without any request.
	WaitSeconds   float64 `json:"wait_seconds"`
	QueuedSeconds float64 `json:"queued_seconds"`
	IdleSeconds   float64 `json:"idle_seconds"`
	Seconds       float64 `json:"seconds"`
}

// State returns the server's counts.
func (s *Server) State() State {
	st := State{
		Index:       s.cfg.Index,
		Mode:        s.Tuning().Mode,
		Connections: s.traffic.connections.Load(),
		Statuses:    make(map[string]int64),
	}
	s.engine.state(&st)
	s.traffic.mu.Lock()
	defer s.traffic.mu.Unlock()
	st.Inflight = s.traffic.inflight.Load()
	st.MaxInflight = s.traffic.maxInflight.Load()
	st.Requests = s.traffic.total.Load()
	for code, n := range s.traffic.statuses {
		st.Statuses[strconv.Itoa(code)] = n
	}
	return st
}

func (e *engine) state(st *State) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	e.sched.account(now)
	c := e.sched.stats
	st.Running, st.Waiting, st.Queued = len(e.sched.running), len(e.sched.waiting), e.sched.queued()
	st.MaxRunning, st.MaxQueued = c.maxRunning, c.maxWaiting
	st.Rejected, st.Preemptions = c.rejected, c.preemptions
	st.PromptTokens, st.CachedTokens, st.OutputTokens = c.promptTokens, c.cachedTokens, c.outputTokens
	st.QueuedRequests, st.AdapterLoads = c.queuedRequests, c.adapterLoads
	st.KVUsage = e.sched.cache.usage()
	st.WaitSeconds, st.QueuedSeconds = c.waited.Seconds(), c.queued.Seconds()
	st.IdleSeconds, st.Seconds = c.idleFor.Seconds(), (now - c.since).Seconds()
}

// Last returns the most recent request to the model, or nil before the first.
func (s *Server) Last() *LastRequest { return s.traffic.last.Load() }

// serveControl serves what is not traffic to the model. It reports whether it did.
func (s *Server) serveControl(w http.ResponseWriter, r *http.Request) bool {
	switch r.URL.Path {
	case "/health":
		if s.Tuning().Mode == ModeSick {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	case "/metrics":
		w.Header().Set("Content-Type", "text/plain; version=1.0.0; charset=utf-8")
		_, _ = w.Write(s.metrics())
	case "/sim/config":
		s.serveConfig(w, r)
	case "/sim/state":
		sendJSON(w, s.State())
	case "/sim/fleet":
		if s.cfg.Fleet == nil {
			writeError(w, http.StatusNotFound, "NotFoundError", "the server belongs to no fleet")
			break
		}
		sendJSON(w, s.cfg.Fleet.State())
	case "/sim/last":
		sendJSON(w, s.Last())
	case "/sim/reset":
		if !posted(w, r) {
			break
		}
		s.Reset()
		if s.cfg.Fleet != nil {
			s.cfg.Fleet.Reset()
		}
		sendJSON(w, s.State())
	default:
		return false
	}
	return true
}

// serveConfig returns the tuning, after a POST has changed the fields its body names.
func (s *Server) serveConfig(w http.ResponseWriter, r *http.Request) {
	t := s.Tuning()
	if r.Method == http.MethodPost {
		d := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16))
		d.DisallowUnknownFields()
		err := d.Decode(&t)
		if err == nil {
			err = s.SetTuning(t)
		}
		if err != nil {
			writeError(w, http.StatusBadRequest, "BadRequestError", err.Error())
			return
		}
	}
	sendJSON(w, t)
}

func posted(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodPost {
		return true
	}
	writeError(w, http.StatusMethodNotAllowed, "MethodNotAllowed", "use POST")
	return false
}

func sendJSON(w http.ResponseWriter, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err) // the types of this package always marshal
	}
	writeJSON(w, http.StatusOK, append(body, '\n'))
}
