package fakehost

import (
	"maps"
	"slices"

	"github.com/warmgate/warmgate/internal/statname"
)

// The kinds of metrics.
const (
	Counter   = "counter"
	Gauge     = "gauge"
	Histogram = "histogram"
)

// Metrics are the metrics of a process, by the short forms of their names (see internal/statname). All who define a
// name share the metric, and names never go away.
type Metrics struct {
	// Kinds has the kind of each.
	Kinds map[string]string
	// Values has what counters and gauges have, and the latest value of a histogram.
	Values map[string]uint64

	records map[string][]uint64
	violate func(format string, args ...any)
}

// NewMetrics returns none yet. violate is told what a gateway allows, but no plugin should do.
func NewMetrics(violate func(format string, args ...any)) *Metrics {
	return &Metrics{
		Kinds: map[string]string{}, Values: map[string]uint64{}, records: map[string][]uint64{}, violate: violate,
	}
}

// Define defines a metric and returns the short form of its name.
func (m *Metrics) Define(kind, name string) string {
	name = statname.Short(name)
	if known, ok := m.Kinds[name]; ok && known != kind {
		m.violate("%s is defined as %s and as %s", name, known, kind)
	}
	m.Kinds[name] = kind
	return name
}

// Increment adds to a counter or a gauge. It reports false where a gateway refuses that: counters only grow.
func (m *Metrics) Increment(name string, by int64) bool {
	kind := m.Kinds[name]
	if kind == Histogram || kind == Counter && by <= 0 {
		return false
	}
	if by < 0 && m.Values[name] < uint64(-by) {
		m.violate("gauge %s goes below zero: %d%+d", name, int64(m.Values[name]), by)
	}
	m.Values[name] += uint64(by)
	return true
}

// Record sets a gauge, or adds a value to a histogram or a counter.
func (m *Metrics) Record(name string, value uint64) {
	switch m.Kinds[name] {
	case Counter:
		value += m.Values[name]
	case Histogram:
		m.records[name] = append(m.records[name], value)
	}
	m.Values[name] = value
}

// Counter returns the value of a counter, 0 if it was never defined.
func (m *Metrics) Counter(name string) uint64 { return m.Values[name] }

// Gauge returns the value of a gauge, 0 if it was never defined. A gauge below zero, always a bug, reads negative.
func (m *Metrics) Gauge(name string) int64 { return int64(m.Values[name]) }

// Histogram returns everything recorded under name, in order.
func (m *Metrics) Histogram(name string) []uint64 { return m.records[name] }

// Forget drops what histograms have recorded.
func (m *Metrics) Forget() { clear(m.records) }

// Names returns the names of all metrics, sorted.
func (m *Metrics) Names() []string { return slices.Sorted(maps.Keys(m.Kinds)) }
