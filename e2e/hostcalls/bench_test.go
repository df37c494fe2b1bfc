package hostcalls

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/higresshost"
)

// BenchmarkRequest measures the requests of the tables: the time of an artifact, compiled by wazero, and of this host,
// which readbody, the plugin that only reads bodies, shows alone.
func BenchmarkRequest(b *testing.B) {
	for _, host := range []struct {
		name  string
		envoy bool
	}{{"higress", false}, {"envoy", true}} {
		if host.envoy { // Higress holds no body for a module of its version of the ABI
			b.Run(host.name+"/readbody", func(b *testing.B) { measure(b, startProbe(b)) })
		}
		for _, p := range policies {
			b.Run(host.name+"/"+p.name[1:len(p.name)-1], func(b *testing.B) {
				measure(b, start(b, host.envoy, false, p.policy, p.members))
			})
		}
	}
}

// startProbe starts a gateway with the plugin that only reads bodies.
func startProbe(b *testing.B) *gateway {
	b.Helper()
	path, err := bench.Probe(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	o := higresshost.Options{BufferLimit: 1 << 20, Profile: higresshost.StockEnvoy, AllowStopIteration: true}
	if o.Wasm, err = os.ReadFile(path); err != nil {
		b.Fatal(err)
	}
	g := &gateway{t: b, probe: true, host: higresshost.Start(b, o)}
	g.host.Cluster("llm").Add("10.0.0.100:8000")
	return g
}

// measure reports the CPU time of a request, too: other work on the machine leaves that as it is.
func measure(b *testing.B, g *gateway) {
	b.Helper()
	for range requests {
		g.request()
	}
	before := cpuTime(b)
	for b.Loop() {
		g.request()
	}
	b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
}

// cpuTime returns the CPU time of this process.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
