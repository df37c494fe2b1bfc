package main

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"
	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm/types"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/core"
)

// sdkGateway is the part of a Gateway that is the same on both gateways.
type sdkGateway struct{}

// KV implements core.Gateway.
func (sdkGateway) KV() lb.KV { return sharedData{} }

// Now implements core.Gateway.
func (sdkGateway) Now() time.Duration { return monotonic() }

// Wall implements core.Gateway.
func (sdkGateway) Wall() time.Duration { return time.Duration(time.Now().UnixNano()) }

// Random implements core.Gateway.
func (sdkGateway) Random() uint64 { return rand.Uint64() }

// Metrics implements core.Gateway.
func (sdkGateway) Metrics() core.Metrics { return sdkMetrics{} }

// Enter implements core.Gateway.
func (sdkGateway) Enter(context uint32) { _ = proxywasm.SetEffectiveContext(context) }

// SetTick implements core.Gateway.
func (sdkGateway) SetTick(context uint32, period time.Duration) (err error) {
	asPlugin(context, func() { err = proxywasm.SetTickPeriodMilliSeconds(uint32(period.Milliseconds())) })
	return err
}

// PluginDone implements core.Gateway.
func (sdkGateway) PluginDone(context uint32) { asPlugin(context, proxywasm.PluginDone) }

// Log implements core.Gateway.
func (sdkGateway) Log(l core.Level, text string) {
	switch l {
	case core.Info:
		proxywasm.LogInfo("warmgate: " + text)
	case core.Warn:
		proxywasm.LogWarn("warmgate: " + text)
	default:
		proxywasm.LogError("warmgate: " + text)
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

// sdkMetrics are the gateway's statistics.
type sdkMetrics struct{}

// Counter implements core.Metrics.
func (sdkMetrics) Counter(name string) uint32 { return defineMetric(counterMetric, name) }

// Gauge implements core.Metrics.
func (sdkMetrics) Gauge(name string) uint32 { return defineMetric(gaugeMetric, name) }

// Histogram implements core.Metrics.
func (sdkMetrics) Histogram(name string) uint32 { return defineMetric(histogramMetric, name) }

// Add implements core.Metrics.
func (sdkMetrics) Add(id uint32, n int64) { addMetric(id, n) }

// Set implements core.Metrics.
func (sdkMetrics) Set(id uint32, n uint64) { recordMetric(id, n) }
