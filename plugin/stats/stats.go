package stats

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/memstore"
)

// Metrics are the gateway's statistics. A metric of the same name is the same metric in every VM of the process.
type Metrics interface {
	Counter(name string) uint32
	Gauge(name string) uint32
	Histogram(name string) uint32
	Add(id uint32, n int64)
	Set(id uint32, n uint64) // of a gauge, or a value for a histogram
}

// Registry is the statistics of a VM, defined when first used.
type Registry struct {
	m         Metrics
	decisions map[string]*[maxReasons]uint32 // by policy; 0 = not defined
	defined   map[string]uint32
	seen      memstore.Stats
	requests  *requests
	policies  []string // that were shown to be in force last

	Unticked bool // nobody calls Flush: what is counted is told at once
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

// OfCluster returns the name of a cluster's statistic. It is not inlined, for the size of the artifacts.
//
//go:noinline
func OfCluster(stat, cluster string) string { return statname.With(stat, "cluster", cluster) }

// OfEndpoint returns the name of an endpoint's statistic.
func OfEndpoint(stat, cluster, endpoint string) string {
	return statname.With(stat, "cluster", cluster, "endpoint", endpoint)
}

// ofKind returns the name of a statistic with a kind.
func ofKind(stat, kind string) string { return statname.With(stat, "kind", kind) }

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

func ofPolicy(name string) string { return statname.With(Policy, "policy", name) }
