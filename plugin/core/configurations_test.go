package core

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/stats"
)

const requestsConfig = `{"lb_policy":"global_least_request","lb_config":{"debug_headers":true,` +
	`"health":{"slow_start":0,"consecutive_failures":2}}}`

// serve sends a request through a worker, answers it and returns the address that was chosen.
func (d *fakeDriver) serve(worker, status int) string {
	c := d.workers[worker].open(streamtest.Request{}.Filled())
	c.Head(status)
	c.Finish()
	return c.Result().Headers["x-warmgate-host"]
}

func TestConfigure(t *testing.T) {
	const good = `{"lb_policy":"global_least_request","lb_config":{"cleanInterval":5,"password":"my secret"}}`
	p := newFakeProcess(t, 0)
	v := p.main.vm
	first, ok := v.configure("warmgate", []byte("{"), config.Higress)
	if !ok || first.set != nil {
		t.Errorf("a bad first configuration: %+v, %v; want one that passes everything through", first, ok)
	}
	if p.metrics.values[stats.ConfigValid] != 0 || p.metrics.kinds[stats.ConfigValid] != "gauge" {
		t.Error("a bad first configuration counts as valid")
	}
	second, ok := v.configure("warmgate", []byte(good), config.Higress)
	if !ok || second.set == nil || !slices.Equal(v.configs.inForce, []*Plugin{second}) ||
		p.metrics.values[stats.ConfigValid] != 1 {
		t.Errorf("a good configuration: %+v, %v", second, ok)
	}
	const bad = `{"lb_policy":"x","lb_config":{"password":"my secret"}}`
	third, ok := p.newVM().configure("warmgate", []byte(bad), config.Higress)
	if ok || third != nil || !slices.Equal(v.configs.inForce, []*Plugin{second}) ||
		p.metrics.values[stats.ConfigValid] != 1 {
		t.Errorf("a bad configuration after a good one: %+v, %v", third, ok)
	}
	if other, ok := v.configure("another", []byte("{"), config.Higress); !ok || other.set != nil {
		t.Error("a second plugin of another name is refused its first configuration for the sake of ours")
	}
	if got := p.metrics.values[stats.ConfigBad]; got != 3 {
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
	d.kv.Broken = errors.New("host trouble")
	d.SetEndpoints(make([]streamtest.Endpoint, 1))
	if !d.configure(requestsConfig) {
		t.Fatal("the configuration is refused, and nothing would be served")
	}
	d.serve(0, 200)
	if got := d.metrics.decisions(); got["store_error"] != 1 || len(got) != 1 {
		t.Errorf("decisions %v, want one store_error", got)
	}
	d.advance(2 * time.Second)
	d.kv.Broken = nil
	if !d.configure(requestsConfig) {
		t.Fatal("refused")
	}
	if host := d.serve(0, 200); host != d.Addr(0) {
		t.Errorf("once memory is there, %q is chosen", host)
	}
}

// Endpoints are discovered for every configuration in force, whichever came last.
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

// A configuration that has been replaced stays until the answers to its calls are there: the gateway would drop them.
func TestConfigurationWaitsForItsCalls(t *testing.T) {
	p := newFakeProcess(t, 0)
	v := p.main.vm
	take := func(context uint32) *Plugin {
		t.Helper()
		taken, ok := v.configure(fmt.Sprint(context), []byte(requestsConfig), config.Higress)
		if !ok {
			t.Fatal("refused")
		}
		taken.context = context
		return taken
	}
	const build = "warmgate_build_info;version=unknown;revision=unknown"
	idle, busy, stuck := take(7), take(8), take(9)
	if v.setBuild(); p.metrics.values[build] != 1 {
		t.Error("the build is not shown to run")
	}
	busy.calls, stuck.calls = 2, 1
	if !idle.done() || busy.done() || stuck.done() {
		t.Error("the gateway has to wait for one without calls, or not for those with some")
	}
	if len(v.configs.inForce) != 0 {
		t.Error("configurations that are done are in force still")
	}
	if p.metrics.values[build] != 0 {
		t.Error("the build is still shown to run")
	}
	busy.handleAnswer(func() {})
	if len(p.left) != 0 {
		t.Errorf("%v may be dropped although an answer is missing", p.left)
	}
	v.Guard("an answer", func() { busy.handleAnswer(func() { panic("oops") }) }, nil)
	if len(p.left) != 1 || p.left[0] != 8 {
		t.Errorf("%v may be dropped, want 8", p.left)
	}
	p.now += maxLinger - time.Millisecond
	v.tick(stuck)
	if len(p.left) != 1 {
		t.Error("too little patience")
	}
	p.now += time.Millisecond
	v.tick(stuck)
	if len(p.left) != 2 || p.left[1] != 9 {
		t.Errorf("%v may be dropped, want 9 as well", p.left)
	}
	v.tick(stuck)
	stuck.handleAnswer(func() {})
	if len(p.left) != 2 {
		t.Errorf("%v: one of them twice", p.left)
	}
}
