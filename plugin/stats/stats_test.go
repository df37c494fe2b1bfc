package stats

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/memstore"
)

// A statistic is defined once and then only changed.
func TestStatsAreDefinedOnce(t *testing.T) {
	m := &countingMetrics{defined: map[string]int{}, values: map[string]int64{}}
	s := New(m)
	for range 3 {
		for _, r := range lb.Reasons() {
			s.Decided("p", r)
			s.Decided("", r)
		}
		s.Count("a_total", 2)
		s.Count("b_total", 0)
		s.Set("c", 7)
		s.Reserved(1500 * time.Nanosecond)
		s.Reserved(-time.Second)
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
	s := New(m)
	s.Store(memstore.Stats{Retries: 3, Returned: 1})
	s.Store(memstore.Stats{Retries: 5, Returned: 1, Corrected: 2})
	if m.values[Retries] != 5 || m.values[Returned] != 1 || m.values[Corrected] != 2 {
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
