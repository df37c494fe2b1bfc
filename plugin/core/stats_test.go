package core

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/memstore"
)

// Dashboards and alerts use these names: a change here affects every user.
func TestNamesOfStatistics(t *testing.T) {
	d := startFake(t, 1, 1, tokensConfig)
	courses["served"](d)
	d.ejects(0, d.Addr(0))
	d.advance(2 * time.Second)
	const cluster = ";cluster=" + fakeCluster
	endpoint := cluster + ";endpoint=" + d.Addr(0)
	want := map[string]string{
		"warmgate_decisions_total;policy=global_least_request;reason=chosen": "counter",
		"warmgate_inflight_requests" + endpoint:                              "gauge",
		"warmgate_inflight_tokens" + endpoint:                                "gauge",
		"warmgate_ejections_total" + cluster:                                 "counter",
		"warmgate_ejected_endpoints" + cluster:                               "gauge",
		"warmgate_build_info;version=unknown;revision=unknown":               "gauge",
		"warmgate_owners":                 "gauge",
		"warmgate_owners_returned_total":  "counter",
		"warmgate_store_corrected_total":  "counter",
		"warmgate_store_retries_total":    "counter",
		"warmgate_recovered_panics_total": "counter",
		"warmgate_config_valid":           "gauge",
		"warmgate_config_rejected_total":  "counter",
		"warmgate_config_refused_rules":   "gauge",
		"warmgate_config_kept_rules":      "gauge",
		"warmgate_reserve_us":             "histogram",
	}
	if !maps.Equal(d.metrics.kinds, want) {
		t.Errorf("statistics %q, want %q", slices.Sorted(maps.Keys(d.metrics.kinds)), slices.Sorted(maps.Keys(want)))
	}
}

// A statistic is defined once and then only changed.
func TestStatsAreDefinedOnce(t *testing.T) {
	m := &countingMetrics{defined: map[string]int{}, values: map[string]int64{}}
	s := newStats(m)
	for range 3 {
		for _, r := range lb.Reasons() {
			s.decided("p", r)
			s.decided("", r)
		}
		s.count("a_total", 2)
		s.count("b_total", 0)
		s.set("c", 7)
		s.reserved(1500 * time.Nanosecond)
		s.reserved(-time.Second)
	}
	for name, n := range m.defined {
		if n != 1 {
			t.Errorf("%s was defined %d times", name, n)
		}
	}
	for name, want := range map[string]int64{
		"policy=.=p;.;reason=.=chosen;.;warmgate_decisions_total":   3,
		"policy=.=none;.;reason=.=panic;.;warmgate_decisions_total": 3,
		"a_total":             6,
		"b_total":             0,
		"c":                   7,
		"warmgate_reserve_us": 0,
	} {
		if got, ok := m.values[name]; !ok || got != want {
			t.Errorf("%s is %d (defined: %v), want %d", name, got, ok, want)
		}
	}
	if got, want := len(m.defined), 2*len(lb.Reasons())+4; got != want {
		t.Errorf("%d statistics, want %d: each reason has its own", got, want)
	}
	if len(lb.Reasons()) > maxReasons {
		t.Errorf("%d reasons, room for %d", len(lb.Reasons()), maxReasons)
	}
}

func TestStatsOfTheStore(t *testing.T) {
	m := &countingMetrics{defined: map[string]int{}, values: map[string]int64{}}
	s := newStats(m)
	s.store(memstore.Stats{Retries: 3, Returned: 1})
	s.store(memstore.Stats{Retries: 5, Returned: 1, Corrected: 2})
	if m.values[statRetries] != 5 || m.values[statReturned] != 1 || m.values[statCorrected] != 2 {
		t.Errorf("counted %v", m.values)
	}
}

// countingMetrics are Metrics that count how often each name was defined.
type countingMetrics struct {
	names   []string
	defined map[string]int
	values  map[string]int64
}

func (m *countingMetrics) define(name string) uint32 {
	m.defined[name]++
	m.values[name] = 0
	m.names = append(m.names, name)
	return uint32(len(m.names) - 1)
}

func (m *countingMetrics) Counter(name string) uint32 { return m.define(name) }

func (m *countingMetrics) Gauge(name string) uint32 { return m.define(name) }

func (m *countingMetrics) Histogram(name string) uint32 { return m.define(name) }

func (m *countingMetrics) Add(id uint32, n int64) { m.values[m.names[id]] += n }

func (m *countingMetrics) Set(id uint32, n uint64) { m.values[m.names[id]] = int64(n) }
