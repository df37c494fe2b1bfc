package main

import (
	"errors"
	"math/rand/v2"
	"strings"
	"time"
	"unsafe"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"
	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm/types"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/stats"
)

// gateway is the part of a host.Gateway that is the same on both gateways.
type gateway struct{}

// KV implements host.Gateway.
func (gateway) KV() lb.KV { return sharedData{} }

// nanoseconds is where the host writes the time.
var nanoseconds uint64

// Now implements host.Gateway. It reads the host's monotonic clock: Go's counts from the start of each VM, and the VMs
// of a process must agree.
func (gateway) Now() time.Duration {
	const monotonic = 1
	clockTimeGet(monotonic, 1, unsafe.Pointer(&nanoseconds))
	return time.Duration(nanoseconds)
}

// Wall implements host.Gateway.
func (gateway) Wall() time.Duration { return time.Duration(time.Now().UnixNano()) }

// Random implements host.Gateway.
func (gateway) Random() uint64 { return rand.Uint64() }

// Metrics implements host.Gateway.
func (gateway) Metrics() stats.Metrics { return metrics{} }

// Enter implements host.Gateway.
func (gateway) Enter(context uint32) { _ = proxywasm.SetEffectiveContext(context) }

// SetTick implements host.Gateway.
func (gateway) SetTick(context uint32, period time.Duration) (err error) {
	asPlugin(context, func() { err = proxywasm.SetTickPeriodMilliSeconds(uint32(period.Milliseconds())) })
	return err
}

// PluginDone implements host.Gateway.
func (gateway) PluginDone(context uint32) { asPlugin(context, proxywasm.PluginDone) }

// Log implements host.Gateway. Each line is one of its own: who searches the log for warmgate sees all of them.
func (gateway) Log(l host.Level, text string) {
	write := proxywasm.LogError
	switch l {
	case host.Info:
		write = proxywasm.LogInfo
	case host.Warn:
		write = proxywasm.LogWarn
	}
	for line := range strings.SplitSeq(text, "\n") {
		write("warmgate: " + line)
	}
}

// sharedData is the gateway's shared data as lb.KV.
type sharedData struct{}

// Get implements lb.KV.
func (sharedData) Get(key string) ([]byte, uint32, error) {
	val, cas, err := proxywasm.GetSharedData(key)
	if errors.Is(err, types.ErrorStatusNotFound) {
		return nil, 0, lb.ErrNotFound
	}
	return val, cas, err
}

// Set implements lb.KV.
func (sharedData) Set(key string, val []byte, cas uint32) error {
	err := proxywasm.SetSharedData(key, val, cas)
	if errors.Is(err, types.ErrorStatusCasMismatch) {
		return lb.ErrMismatch
	}
	return err
}

// The kinds of statistics, as the host calls number them.
const (
	counterMetric = iota
	gaugeMetric
	histogramMetric
)

// metrics are the gateway's statistics. Its methods panic when the gateway refuses: only a mistake here can make it.
type metrics struct{}

// status is what a host call returns.
type status uint32

const statusOK status = 0

var metricID uint32 // where the host writes the id of a statistic

func defineMetric(kind uint32, name string) uint32 {
	if proxyDefineMetric(kind, name, unsafe.Pointer(&metricID)) != statusOK {
		panic("the gateway refused to define a statistic")
	}
	return metricID
}

// Counter implements stats.Metrics.
func (metrics) Counter(name string) uint32 { return defineMetric(counterMetric, name) }

// Gauge implements stats.Metrics.
func (metrics) Gauge(name string) uint32 { return defineMetric(gaugeMetric, name) }

// Histogram implements stats.Metrics.
func (metrics) Histogram(name string) uint32 { return defineMetric(histogramMetric, name) }

// Add implements stats.Metrics.
func (metrics) Add(id uint32, n int64) {
	if proxyIncrementMetric(id, n) != statusOK {
		panic("the gateway refused to add to a statistic")
	}
}

// Set implements stats.Metrics.
func (metrics) Set(id uint32, n uint64) {
	if proxyRecordMetric(id, n) != statusOK {
		panic("the gateway refused a value of a statistic")
	}
}
