package core

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
)

const requestsConfig = `{"lb_policy":"global_least_request","lb_config":{"debug_headers":true,` +
	`"health":{"slow_start":0,"consecutive_failures":2}}}`

// serve sends a request through a worker, answers it and returns the address that was chosen.
func (d *fakeDriver) serve(worker, status int) string {
	c := &fakeClient{d.workers[worker].open(streamtest.Request{}.Filled())}
	c.Head(status)
	c.Finish()
	return c.result.Headers["x-warmgate-host"]
}

func TestConfigure(t *testing.T) {
	const good = `{"lb_policy":"global_least_request","lb_config":{"cleanInterval":5,"password":"my secret"}}`
	p := newFakeProcess(t, 0)
	v := p.main.vm
	first, ok := v.configure("warmgate", []byte("{"), config.Higress)
	if !ok || first.set != nil {
		t.Errorf("a bad first configuration: %+v, %v; want one that passes everything through", first, ok)
	}
	if p.metrics.values[statConfigValid] != 0 || p.metrics.kinds[statConfigValid] != "gauge" {
		t.Error("a bad first configuration counts as valid")
	}
	second, ok := v.configure("warmgate", []byte(good), config.Higress)
	if !ok || second.set == nil || !slices.Equal(v.configs.inForce, []*Plugin{second}) ||
		p.metrics.values[statConfigValid] != 1 {
		t.Errorf("a good configuration: %+v, %v", second, ok)
	}
	const bad = `{"lb_policy":"x","lb_config":{"password":"my secret"}}`
	third, ok := p.newVM().configure("warmgate", []byte(bad), config.Higress)
	if ok || third != nil || !slices.Equal(v.configs.inForce, []*Plugin{second}) ||
		p.metrics.values[statConfigValid] != 1 {
		t.Errorf("a bad configuration after a good one: %+v, %v", third, ok)
	}
	if other, ok := v.configure("another", []byte("{"), config.Higress); !ok || other.set != nil {
		t.Error("a second plugin of another name is refused its first configuration for the sake of ours")
	}
	if got := p.metrics.values[statConfigBad]; got != 3 {
		t.Errorf("%d configurations counted as refused, want 3", got)
	}
	log := strings.Join(p.log, "\n")
	for _, want := range []string{"the previous one stays in force", "fall back to native balancing", "cleanInterval"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log has nothing of %q:\n%s", want, log)
		}
	}
	if strings.Contains(log, "secret") {
		t.Errorf("the log has a password:\n%s", log)
	}
}

func TestConfigureWithoutSharedMemory(t *testing.T) {
	d := &fakeDriver{fakeProcess: newFakeProcess(t, 1)}
	d.kv.broken = errors.New("host trouble")
	d.SetEndpoints(make([]streamtest.Endpoint, 1))
	if !d.configure(requestsConfig) {
		t.Fatal("the configuration is refused, and nothing would be served")
	}
	d.serve(0, 200)
	if got := d.metrics.decisions(); got["store_error"] != 1 || len(got) != 1 {
		t.Errorf("decisions %v, want one store_error", got)
	}
	d.advance(2 * time.Second)
	d.kv.broken = nil
	if !d.configure(requestsConfig) {
		t.Fatal("refused")
	}
	if host := d.serve(0, 200); host != d.Addr(0) {
		t.Errorf("once memory is there, %q is chosen", host)
	}
}

// Configurations come and go; what is known of a cluster stays, and memory does not grow.
func TestManyConfigurations(t *testing.T) {
	d := startFake(t, 1, 3, requestsConfig)
	v := d.workers[0].vm
	bad := d.serve(0, 200)
	health, caches := v.clusters[fakeCluster].health, v.clusters[fakeCluster].caches
	for range 2 {
		health.Observe(d.now, lb.Outcome{Addr: bad, Verdict: lb.Failure}, ejectTerms)
	}
	for i := range 48 {
		raw := fmt.Sprintf(`{"lb_policy":"global_least_request","lb_config":{"debug_headers":true,"max_inflight":%d}}`, i+1)
		if !d.configure(raw) {
			t.Fatal("refused")
		}
		if host := d.serve(0, 200); host == bad {
			t.Fatalf("after configuration %d the ejection is forgotten", i)
		}
	}
	d.advance(2 * heartbeatPeriod)
	if n := len(v.clusters[fakeCluster].policies); n != 1 {
		t.Errorf("%d policies are kept, 1 is in force", n)
	}
	if len(v.clusters) != 1 || v.clusters[fakeCluster].health != health || v.clusters[fakeCluster].caches != caches {
		t.Error("the cluster is another one")
	}
}

// Endpoints are found for every configuration in force, whichever came last.
func TestSourceOfSeveralConfigurations(t *testing.T) {
	p := newFakeProcess(t, 0)
	v := p.main.vm
	source := func() string {
		p.now += tickPeriod
		v.tick(&Plugin{vm: v, ticker: ticker{period: tickPeriod}})
		if p.source == nil {
			return ""
		}
		return p.source.AdminCluster
	}
	take := func(name, raw string) *Plugin {
		t.Helper()
		taken, ok := v.configure(name, []byte(raw), config.Envoy)
		if !ok {
			t.Fatal("refused")
		}
		return taken
	}
	admin := func(name string) string {
		return fmt.Sprintf(`{"lb_policy":"global_least_request","lb_config":{"envoy":{"admin_cluster":%q}}}`, name)
	}
	if got := source(); got != "" {
		t.Errorf("without a configuration: %q", got)
	}
	first := take("a", admin("first"))
	off := take("b", `{"enabled":false}`)
	if got := source(); got != "first" {
		t.Errorf("with a second configuration that needs no endpoints: %q", got)
	}
	second := take("c", admin("second"))
	if got := source(); got != "second" {
		t.Errorf("the newest does not count: %q", got)
	}
	v.configs.remove(second)
	v.configs.remove(off)
	v.configs.remove(off)
	if got := source(); got != "first" || len(v.configs.inForce) != 1 {
		t.Errorf("the other two are gone: %q, %d in force", got, len(v.configs.inForce))
	}
	v.configs.remove(&Plugin{vm: v}) // a refused one was never in force
	if !first.OnDone() {
		t.Error("the gateway is to wait")
	}
	if got := source(); got != "" {
		t.Errorf("all are gone: %q", got)
	}
}

// Several configurations in one VM each tick it; what is due stays as often as it should be.
func TestTicksThatComeTogether(t *testing.T) {
	d := startFake(t, 1, 1, requestsConfig)
	beats := 0
	d.kv.onSet = func(key string, _ []byte, _ uint32) error {
		if strings.HasSuffix(key, "/roster") {
			beats++
		}
		return nil
	}
	d.serve(0, 200)
	beats, d.ticks = 0, 0
	for range 30 {
		d.now += tickPeriod
		for range 3 {
			d.workers[0].vm.tick(d.workers[0].current)
		}
	}
	if d.ticks != 30 {
		t.Errorf("%d ticks were passed on in 3 s, want 30", d.ticks)
	}
	// Each heartbeat writes the roster twice: to renew the owner, and to note who sweeps.
	if beats < 4 || beats > 8 {
		t.Errorf("the roster was written %d times in 3 s", beats)
	}
}

func endpointGauges(d *fakeDriver) (names []string) {
	for name, kind := range d.metrics.kinds {
		if kind == "gauge" && strings.HasPrefix(name, statInflight+";") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func TestGaugesAreBounded(t *testing.T) {
	d := startFake(t, 1, maxGauges+10, requestsConfig)
	d.serve(0, 200)
	d.advance(1100 * time.Millisecond)
	if n := len(endpointGauges(d)); n != maxGauges {
		t.Errorf("%d gauges for %d endpoints, want %d", n, maxGauges+10, maxGauges)
	}
}

func TestGaugesFollowTheEndpoints(t *testing.T) {
	d := startFake(t, 1, 1, requestsConfig)
	old := &fakeClient{d.workers[0].open(streamtest.Request{}.Filled())}
	d.advance(1100 * time.Millisecond)
	gone := statInflight + ";cluster=" + fakeCluster + ";endpoint=" + d.Addr(0)
	if got := d.metrics.values[gone]; got != 1 {
		t.Errorf("%s is %d, want 1", gone, got)
	}
	d.SetEndpoints(nil)
	for range 2 * maxGauges {
		d.SetEndpoints(make([]streamtest.Endpoint, 1))
		d.serve(0, 200)
		d.advance(1100 * time.Millisecond)
		if name := statInflight + ";cluster=" + fakeCluster + ";endpoint=" + d.Addr(0); d.metrics.kinds[name] == "" {
			t.Fatalf("%s has no gauge", d.Addr(0))
		}
		d.SetEndpoints(nil)
	}
	if got := d.metrics.values[gone]; got != 1 {
		t.Errorf("of an endpoint that has left, %s is %d, want 1: it still serves", gone, got)
	}
	old.Head(200)
	old.Finish()
	d.advance(1100 * time.Millisecond)
	if got := d.metrics.values[gone]; got != 0 {
		t.Errorf("%s is %d when its last request has ended", gone, got)
	}
	if n := len(d.workers[0].vm.clusters[fakeCluster].gauged); n > 2 {
		t.Errorf("%d endpoints are kept in mind, of which one is there", n)
	}
}

func TestDescribe(t *testing.T) {
	for _, c := range []struct {
		addr   string
		reason lb.Reason
		load   int64
		want   string
	}{
		{"10.0.0.1:8000", lb.ReasonChosen, 3, "host=10.0.0.1:8000 reason=chosen load=3"},
		{"", lb.ReasonDisabled, 0, "host=- reason=disabled"},
		{"[::1]:80", lb.ReasonShadow, 1, "host=[::1]:80 reason=shadow load=1"},
	} {
		if got := describe(c.addr, c.reason, c.load); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestDetailLog(t *testing.T) {
	d := startFake(t, 1, 1, `{"lb_policy":"global_least_request","lb_config":{"enableDetailLog":true}}`)
	d.serve(0, 200)
	want := fmt.Sprintf("%d cluster=%s host=%s reason=chosen load=1", Info, fakeCluster, d.Addr(0))
	if !slices.Contains(d.log, want) {
		t.Errorf("the log %q has no line %q", d.log, want)
	}
}

// A retry's second and third choice are other endpoints than the first, each once.
func TestOthers(t *testing.T) {
	for n := 1; n <= 5; n++ {
		addrs := make([]lb.Candidate, n)
		for i := range addrs {
			addrs[i].Addr = string(rune('a' + i))
		}
		seen := map[string]int{}
		for chosen := range addrs {
			for tie := range uint64(64) {
				got := others(&lb.Plan{Candidates: addrs, Tie: tie << 33}, chosen)
				if len(got) != min(2, n-1) || slices.Contains(got, addrs[chosen].Addr) || len(got) == 2 && got[0] == got[1] {
					t.Fatalf("%d candidates, %s chosen: %v", n, addrs[chosen].Addr, got)
				}
				for _, a := range got {
					seen[a]++
				}
			}
		}
		for _, c := range addrs {
			if n > 1 && seen[c.Addr]*n < 64*n*min(2, n-1)/2 {
				t.Errorf("%d candidates: %s is named %d times, others %v", n, c.Addr, seen[c.Addr], seen)
			}
		}
	}
}
