package stats

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/memstore"
	"github.com/warmgate/warmgate/plugin/measured"
)

// Registry is the statistics of a VM, defined when first used.
type Registry struct {
	m         Metrics
	decisions map[string]*[maxReasons]uint32 // by policy; 0 = not defined
	defined   map[string]uint32
	seen      memstore.Stats
	requests  *requests
	policies  []string // that were shown to be in force last

	Unticked bool // nobody calls Flush: what is counted goes to the gateway at once
}

const (
	maxReasons = 40
	// maxNames bounds the statistics that one VM defines: the gateway never frees a name, and endpoints come and go.
	maxNames = 8192
)

// New returns a registry that defines nothing yet.
func New(m Metrics) *Registry {
	return &Registry{
		m: m, decisions: map[string]*[maxReasons]uint32{}, defined: map[string]uint32{}, requests: newRequests(m),
	}
}

// Decided counts one request.
func (s *Registry) Decided(policy string, r lb.Reason) {
	if policy == "" {
		policy = "none"
	}
	ids := s.decisions[policy]
	if ids == nil {
		ids = new([maxReasons]uint32)
		s.decisions[policy] = ids
	}
	if ids[r] == 0 {
		ids[r] = s.m.Counter(statname.With(Decisions, "policy", policy, "reason", r.String())) + 1
	}
	s.m.Add(ids[r]-1, 1)
}

func (s *Registry) id(name string, define func(string) uint32) uint32 {
	id, ok := s.defined[name]
	if !ok {
		id = define(name)
		s.defined[name] = id
	}
	return id
}

// room reports whether a statistic may be used: it is there, or may still be defined. Those of decisions are not
// counted.
func (s *Registry) room(name string) bool { return s.Has(name) || len(s.defined) < maxNames }

// Has reports whether a statistic is defined.
func (s *Registry) Has(name string) bool {
	_, ok := s.defined[name]
	return ok
}

// Count adds to a counter.
func (s *Registry) Count(name string, n uint64) {
	id := s.id(name, s.m.Counter)
	if n > 0 {
		s.m.Add(id, int64(n))
	}
}

// Set sets a gauge.
func (s *Registry) Set(name string, n uint64) { s.m.Set(s.id(name, s.m.Gauge), n) }

// CountIf adds to a counter if there is room for it, and reports whether there is.
func (s *Registry) CountIf(name string, n uint64) bool {
	if !s.room(name) {
		return false
	}
	s.Count(name, n)
	return true
}

// SetIf sets a gauge if there is room for it.
func (s *Registry) SetIf(name string, n uint64) {
	if s.room(name) {
		s.Set(name, n)
	}
}

// RecordIf adds a value to a histogram if there is room for it.
func (s *Registry) RecordIf(name string, n uint64) {
	if s.room(name) {
		s.m.Set(s.id(name, s.m.Histogram), n)
	}
}

// Reserved records how long a reservation took.
func (s *Registry) Reserved(d time.Duration) {
	s.m.Set(s.id(Reserve, s.m.Histogram), uint64(max(0, d.Microseconds())))
}

// Store counts what the store has had to do since the last call.
func (s *Registry) Store(now memstore.Stats) {
	s.Count(Retries, now.Retries-s.seen.Retries)
	s.Count(Returned, now.Returned-s.seen.Returned)
	s.Count(Corrected, now.Corrected-s.seen.Corrected)
	s.seen = now
}

// Policies shows which policies are in force. It is called again and again: other VMs set those that they do not have
// any more to 0, once.
func (s *Registry) Policies(inForce []string) {
	for _, name := range s.policies {
		if !slices.Contains(inForce, name) {
			s.SetIf(ofPolicy(name), 0)
		}
	}
	for _, name := range inForce {
		s.SetIf(ofPolicy(name), 1)
	}
	s.policies = inForce
}

// Pin replaces the models that have labels in any case.
func (s *Registry) Pin(models []string) { s.requests.models.Pin(models) }

// ModelLabel returns the label of a model, "" for none.
func (s *Registry) ModelLabel(name string) string {
	if name == "" {
		return ""
	}
	return s.requests.models.Label(name)
}

// Measured counts a request that is over.
func (s *Registry) Measured(m *measured.Request) {
	s.requests.count(m)
	if s.Unticked {
		s.Flush()
	}
}

// Flush gives the gateway what was counted of requests since the last call, a second ago.
func (s *Registry) Flush() { s.requests.flush() }
