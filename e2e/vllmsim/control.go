package vllmsim

import (
	"net/http"
	"strconv"
)

// State is what a server knows about itself. Counts and times
// are since the start or the last Reset; running, waiting, in flight and connections are now.
type State struct {
	Index   int
	Mode    Mode
	Running int
	Waiting int
	// Queued is the part of Waiting that no free slot or KV block will take with the next step.
	Queued int
	// Inflight counts requests to the model from the moment their head has been read until
	// their handler ends; requests to /health and /metrics are not counted.
	Inflight    int64
	MaxInflight int64
	Connections int64
	MaxQueued   int
	Requests    int64
	// Statuses counts ended requests. "499" is a client that left, "0" an answer that was reset.
	Statuses    map[string]int64
	Rejected    int64
	Preemptions int64
	// QueuedRequests counts the requests that waited because there was no slot, no KV block or no room for their
	// adapter, and AdapterLoads the adapters that were not loaded when a batch needed them.
	QueuedRequests int64
	AdapterLoads   int64
	PromptTokens   int64
	CachedTokens   int64
	OutputTokens   int64
	KVUsage        float64
	// WaitSeconds is the time all requests together spent waiting, QueuedSeconds the part of it spent because there was
	// no slot, KV block or room for an adapter. IdleSeconds is the time without any request.
	WaitSeconds   float64
	QueuedSeconds float64
	IdleSeconds   float64
	Seconds       float64
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
	st.MaxQueued = c.maxWaiting
	st.Rejected, st.Preemptions = c.rejected, c.preemptions
	st.PromptTokens, st.CachedTokens, st.OutputTokens = c.promptTokens, c.cachedTokens, c.outputTokens
	st.QueuedRequests, st.AdapterLoads = c.queuedRequests, c.adapterLoads
	st.KVUsage = e.sched.cache.usage()
	st.WaitSeconds, st.QueuedSeconds = c.waited.Seconds(), c.queued.Seconds()
	st.IdleSeconds, st.Seconds = c.idleFor.Seconds(), (now - c.since).Seconds()
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
