package core

import (
	"fmt"
	"strings"

	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/plugin/stats"
)

// fakeMetrics are the statistics of the process, by the short forms of their names.
type fakeMetrics struct {
	ids    map[string]uint32
	names  []string
	values map[string]uint64
	kinds  map[string]string
}

func (m *fakeMetrics) define(kind, name string) uint32 {
	name = statname.Short(name)
	id, ok := m.ids[name]
	if !ok {
		id = uint32(len(m.names))
		m.ids[name], m.kinds[name] = id, kind
		m.names = append(m.names, name)
	}
	if m.kinds[name] != kind {
		panic(fmt.Sprintf("%s is defined as %s and as %s", name, m.kinds[name], kind))
	}
	return id
}

func (m *fakeMetrics) Counter(name string) uint32   { return m.define("counter", name) }
func (m *fakeMetrics) Gauge(name string) uint32     { return m.define("gauge", name) }
func (m *fakeMetrics) Histogram(name string) uint32 { return m.define("histogram", name) }

func (m *fakeMetrics) Add(id uint32, n int64) {
	if n <= 0 {
		panic(fmt.Sprintf("%s is a %s and grows by %d", m.names[id], m.kinds[m.names[id]], n))
	}
	m.values[m.names[id]] += uint64(n)
}

func (m *fakeMetrics) Set(id uint32, n uint64) { m.values[m.names[id]] = n }

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
