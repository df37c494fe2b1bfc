package vllmsim

import (
	"maps"
	"time"

	"github.com/warmgate/warmgate/internal/enginesim"
)

// State is what a server knows about itself. Counts and times are since the start or the last Reset; running, waiting,
// in flight and connections are now.
type State struct {
	enginesim.State
	// Inflight counts requests to the model from the moment their head has been read until
	// their handler ends; requests to /health and /metrics are not counted.
	Inflight    int64
	MaxInflight int64
	Connections int64
	Requests    int64
	// Statuses counts ended requests. 499 is a client that left, 0 an answer that was reset.
	Statuses map[int]int64
}

// State returns the server's counts.
func (s *Server) State() State {
	var st State
	s.runner.do(func(e *enginesim.Engine, now time.Duration) { st.State = e.State(now) })
	s.traffic.mu.Lock()
	defer s.traffic.mu.Unlock()
	st.Connections, st.Inflight = s.traffic.connections.Load(), s.traffic.inflight.Load()
	st.MaxInflight = s.traffic.maxInflight.Load()
	st.Requests = s.traffic.total.Load()
	st.Statuses = maps.Clone(s.traffic.statuses)
	return st
}
