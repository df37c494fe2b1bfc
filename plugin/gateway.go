package main

import (
	"math/rand/v2"
	"strings"
	"time"
	"unsafe"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/core"
)

// gateway is the part of a core.Gateway that is the same on both gateways.
type gateway struct{}

// KV implements core.Gateway.
func (gateway) KV() lb.KV { return sharedData{} }

// nanoseconds is where the host writes the time.
var nanoseconds uint64

// Now implements core.Gateway. It reads the host's monotonic clock: Go's counts from the start of each VM, and the VMs
// of a process must agree.
func (gateway) Now() time.Duration {
	const monotonic = 1
	clockTimeGet(monotonic, 1, unsafe.Pointer(&nanoseconds))
	return time.Duration(nanoseconds)
}

// Wall implements core.Gateway.
func (gateway) Wall() time.Duration { return time.Duration(time.Now().UnixNano()) }

// Random implements core.Gateway.
func (gateway) Random() uint64 { return rand.Uint64() }

// Metrics implements core.Gateway.
func (gateway) Metrics() core.Metrics { return metrics{} }

// Enter implements core.Gateway.
func (gateway) Enter(context uint32) { proxySetContext(context) }

// SetTick implements core.Gateway.
func (gateway) SetTick(context uint32, period time.Duration) (err error) {
	asPlugin(context, func() { err = proxySetTickPeriod(uint32(period.Milliseconds())).err() })
	return err
}

// PluginDone implements core.Gateway.
func (gateway) PluginDone(context uint32) {
	forget(context)
	asPlugin(context, func() { proxyDone() })
}

// Log implements core.Gateway. Each line is one of its own: who searches the log for warmgate sees all of them.
func (gateway) Log(l core.Level, text string) {
	const info = 2 // the gateway's number of core.Info; those of the others follow
	for line := range strings.SplitSeq(text, "\n") {
		proxyLog(info+uint32(l), "warmgate: "+line)
	}
}

// sharedData is the gateway's shared data as lb.KV.
type sharedData struct{}

// Get implements lb.KV.
func (sharedData) Get(key string) ([]byte, uint32, error) {
	lend(nil)
	st := proxyGetSharedData(key, dataAt, sizeAt, casAt)
	val := fetched(st)
	switch st {
	case statusOK:
		return val, answer.cas, nil
	case statusNone:
		return nil, 0, lb.ErrNotFound
	}
	return nil, 0, st
}

// Set implements lb.KV.
func (sharedData) Set(key string, val []byte, cas uint32) error {
	st := proxySetSharedData(key, text(val), cas)
	if st == statusCasMismatch {
		return lb.ErrMismatch
	}
	return st.err()
}

// The kinds of statistics, as the host calls number them.
const (
	counterMetric = iota
	gaugeMetric
	histogramMetric
)

// metrics are the gateway's statistics. Its methods panic when the gateway refuses: only a mistake here can make it.
type metrics struct{}

var metricID uint32 // where the host writes the id of a statistic

func defineMetric(kind uint32, name string) uint32 {
	if proxyDefineMetric(kind, name, unsafe.Pointer(&metricID)) != statusOK {
		panic("the gateway refused to define a statistic")
	}
	return metricID
}

// Counter implements core.Metrics.
func (metrics) Counter(name string) uint32 { return defineMetric(counterMetric, name) }

// Gauge implements core.Metrics.
func (metrics) Gauge(name string) uint32 { return defineMetric(gaugeMetric, name) }

// Histogram implements core.Metrics.
func (metrics) Histogram(name string) uint32 { return defineMetric(histogramMetric, name) }

// Add implements core.Metrics.
func (metrics) Add(id uint32, n int64) {
	if proxyIncrementMetric(id, n) != statusOK {
		panic("the gateway refused to add to a statistic")
	}
}

// Set implements core.Metrics.
func (metrics) Set(id uint32, n uint64) {
	if proxyRecordMetric(id, n) != statusOK {
		panic("the gateway refused a value of a statistic")
	}
}
