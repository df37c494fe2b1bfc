package streamtest

import "testing"

// stats is what a run knows of the plugin's statistics.
type stats struct {
	t       testing.TB
	gateway Gateway
	before  map[string]uint64 // counters when they were marked
}

// mark remembers the values of counters, for grown.
func (s *stats) mark(names ...string) {
	for _, n := range names {
		s.before[n] = s.gateway.Counter(n)
	}
}

// grown returns by how much the counter has grown since it was marked; one that was not, since the gateway began.
func (s *stats) grown(name string) uint64 { return s.gateway.Counter(name) - s.before[name] }

// wantGrown fails the test unless the counter comes to be n more than when it was marked.
func (s *stats) wantGrown(name string, n uint64) {
	s.t.Helper()
	var got uint64
	if !s.gateway.Await(func() bool { got = s.grown(name); return got == n }) {
		s.t.Errorf("%s grew by %d, want %d", name, got, n)
	}
}

// wantGauge fails the test unless the gauge comes to have that value.
func (s *stats) wantGauge(name string, want uint64) {
	s.t.Helper()
	var got uint64
	if !s.gateway.Await(func() bool { got = s.gateway.Gauge(name); return got == want }) {
		s.t.Errorf("%s is %d, want %d", name, got, want)
	}
}

// ofCluster is the statistic of the cluster.
func (s *stats) ofCluster(name string) string { return name + ";cluster=" + s.gateway.Names().Cluster }

// ofEndpoint is the statistic of an endpoint.
func (s *stats) ofEndpoint(name string, endpoint int) string {
	return s.ofCluster(name) + ";endpoint=" + s.gateway.Addr(endpoint)
}

// decisions is the counter of requests with that reason.
func decisions(reason string) string { return decisionsOf(leastRequest, reason) }

func decisionsOf(policy, reason string) string {
	return "warmgate_decisions_total;policy=" + policy + ";reason=" + reason
}
