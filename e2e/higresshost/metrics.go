package higresshost

import (
	"sort"

	"github.com/warmgate/warmgate/internal/statname"
)

// metricKind is the kind of a metric as the ABI numbers it; it is also the low two bits of every metric id.
type metricKind uint32

const (
	kindCounter metricKind = iota
	kindGauge
	kindHistogram
)

// metricCell is one metric of the process. All VMs that define the same kind and name share it.
type metricCell struct {
	name    string
	kind    metricKind
	value   uint64
	records []uint64
}

type metricName struct {
	kind metricKind
	name string
}

// Metrics are the process-wide metrics that plugins defined, by the short forms of their names (see internal/statname).
// Names never go away.
type Metrics struct{ cells map[metricName]*metricCell }

func (m *Metrics) cell(kind metricKind, name string) *metricCell {
	k := metricName{kind, name}
	c := m.cells[k]
	if c == nil {
		c = &metricCell{name: name, kind: kind}
		m.cells[k] = c
	}
	return c
}

func (m *Metrics) value(kind metricKind, name string) uint64 {
	if c := m.cells[metricName{kind, name}]; c != nil {
		return c.value
	}
	return 0
}

// Counter returns the value of a counter, 0 if it was never defined.
func (m *Metrics) Counter(name string) uint64 { return m.value(kindCounter, name) }

// Gauge returns the value of a gauge, 0 if it was never defined. A gauge below zero, always a bug, reads negative.
func (m *Metrics) Gauge(name string) int64 { return int64(m.value(kindGauge, name)) }

// Histogram returns everything recorded under name, in order.
func (m *Metrics) Histogram(name string) []uint64 {
	if c := m.cells[metricName{kindHistogram, name}]; c != nil {
		return c.records
	}
	return nil
}

// Names returns the names of all metrics, sorted.
func (m *Metrics) Names() []string {
	out := make([]string, 0, len(m.cells))
	for k := range m.cells {
		out = append(out, k.name)
	}
	sort.Strings(out)
	return out
}

// defineMetric gives the VM an id of its own for the shared cell.
func (v *vm) defineMetric(kind metricKind, name string) (uint32, status) {
	if kind > kindHistogram {
		return 0, statusBadArgument
	}
	v.nextMetric += 4
	id := v.nextMetric | uint32(kind)
	v.metrics[id] = v.gw.metrics.cell(kind, statname.Short(name))
	return id, statusOK
}

func (v *vm) incrementMetric(id uint32, by int64) status {
	c := v.metrics[id]
	if c == nil {
		return statusNotFound
	}
	switch c.kind {
	case kindCounter:
		if by <= 0 {
			return statusBadArgument
		}
	case kindHistogram:
		return statusBadArgument
	case kindGauge:
		if by < 0 && c.value < uint64(-by) {
			v.gw.violate("gauge %s goes below zero: %d%+d", c.name, int64(c.value), by)
		}
	}
	c.value += uint64(by)
	return statusOK
}

func (v *vm) recordMetric(id uint32, value uint64) status {
	c := v.metrics[id]
	if c == nil {
		return statusNotFound
	}
	switch c.kind {
	case kindCounter:
		c.value += value
	case kindGauge:
		c.value = value
	case kindHistogram:
		c.records = append(c.records, value)
	}
	return statusOK
}
