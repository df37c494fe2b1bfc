// Package healthtest has a cluster, its health and failures there, for tests.
package healthtest

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/health"
	"github.com/warmgate/warmgate/lb/storetest"
)

// Config ejects after five failures.
var Config = health.Config{
	ConsecutiveFailures: 5, EjectionTime: 10 * time.Second, MaxEjectionTime: time.Minute,
	MaxEjectionPercent: 50, SlowStart: 30 * time.Second, PanicThreshold: 50,
}

// Cluster has that health and no caps.
var Cluster = &health.ClusterConfig{Health: Config}

// View returns a view of n healthy endpoints of equal weight.
func View(n int) *lb.View {
	v := &lb.View{Cluster: "llm"}
	for _, a := range storetest.Addrs(n) {
		v.Endpoints = append(v.Endpoints, lb.Endpoint{Addr: a, Weight: 1})
	}
	return v
}

// Tiered returns a view of endpoints in these states, with one list for each priority.
func Tiered(priorities ...[]lb.State) *lb.View {
	n := 0
	for _, p := range priorities {
		n += len(p)
	}
	v := View(n)
	i := 0
	for p, states := range priorities {
		for _, s := range states {
			v.Endpoints[i].Priority, v.Endpoints[i].State = uint8(p), s
			i++
		}
	}
	return v
}

// New returns a health that knows the endpoints of the view.
func New(v *lb.View) *health.Health {
	h := health.New()
	h.Candidates(0, v, Cluster, 0)
	return h
}

// Fail reports n failures of an endpoint.
func Fail(h *health.Health, now time.Duration, addr string, n int) {
	for range n {
		h.Observe(now, lb.Outcome{Addr: addr, Verdict: lb.Failure}, Cluster)
	}
}

// Eject ejects an endpoint in a VM where no other one fails.
func Eject(h *health.Health, now time.Duration, v *lb.View, addr string) {
	other := New(v)
	Fail(other, now, addr, 5)
	ejections, _ := other.Export(now, nil)
	h.Import(now, ejections)
}
