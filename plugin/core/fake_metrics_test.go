package core

import (
	"slices"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/fakehost"
	"github.com/warmgate/warmgate/plugin/stats"
)

// fakeMetrics are the statistics of the process, by the short forms of their names.
type fakeMetrics struct {
	*fakehost.Metrics
	t      *testing.T
	names  []string // by number
	values map[string]uint64
	kinds  map[string]string
}

func newFakeMetrics(t *testing.T) *fakeMetrics {
	m := fakehost.NewMetrics(t.Errorf)
	return &fakeMetrics{Metrics: m, t: t, values: m.Values, kinds: m.Kinds}
}

func (m *fakeMetrics) define(kind, name string) uint32 {
	name = m.Define(kind, name)
	id := slices.Index(m.names, name)
	if id < 0 {
		id, m.names = len(m.names), append(m.names, name)
	}
	return uint32(id)
}

func (m *fakeMetrics) Counter(name string) uint32   { return m.define(fakehost.Counter, name) }
func (m *fakeMetrics) Gauge(name string) uint32     { return m.define(fakehost.Gauge, name) }
func (m *fakeMetrics) Histogram(name string) uint32 { return m.define(fakehost.Histogram, name) }

func (m *fakeMetrics) Add(id uint32, n int64) {
	if name := m.names[id]; n <= 0 || !m.Increment(name, n) {
		m.t.Errorf("%s is a %s and grows by %d", name, m.kinds[name], n)
	}
}

func (m *fakeMetrics) Set(id uint32, n uint64) { m.Record(m.names[id], n) }

// decisions returns the requests counted, by reason.
func (m *fakeMetrics) decisions() map[string]uint64 {
	counts := map[string]uint64{}
	for name, n := range m.values {
		if strings.HasPrefix(name, stats.Decisions+";") && n > 0 {
			counts[name[strings.LastIndex(name, "=")+1:]] += n
		}
	}
	return counts
}
