package core

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/measured"
	"github.com/warmgate/warmgate/plugin/process"
	"github.com/warmgate/warmgate/plugin/stats"
	"github.com/warmgate/warmgate/plugin/vm"
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
	first := started(v, 1, "warmgate", "{")
	if first == nil || first.Set != nil {
		t.Errorf("a bad first configuration: %+v; want one that passes everything through", first)
	}
	if p.metrics.values[stats.ConfigValid] != 0 || p.metrics.kinds[stats.ConfigValid] != "gauge" {
		t.Error("a bad first configuration counts as valid")
	}
	second := started(v, 1, "warmgate", good)
	if second == nil || second.Set == nil || v.Newest() != second || p.metrics.values[stats.ConfigValid] != 1 {
		t.Errorf("a good configuration: %+v", second)
	}
	const bad = `{"lb_policy":"x","lb_config":{"password":"my secret"}}`
	third := started(p.newVM(config.Higress), 1, "warmgate", bad)
	if third != nil || v.Newest() != second || p.metrics.values[stats.ConfigValid] != 1 {
		t.Errorf("a bad configuration after a good one: %+v", third)
	}
	if other := started(v, 1, "another", "{"); other == nil || other.Set != nil {
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
	v := p.newVM(config.Envoy)
	source := func() string {
		p.now += process.TickPeriod
		v.NewPlugin(9).OnTick()
		if p.source == nil {
			return ""
		}
		return p.source.AdminCluster
	}
	take := func(name, raw string) *vm.Plugin {
		t.Helper()
		taken := started(v, 1, name, raw)
		if taken == nil {
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
	second.OnDone()
	off.OnDone()
	off.OnDone()
	if got := source(); got != "first" || v.Newest() != first {
		t.Errorf("the other two are gone: %q", got)
	}
	v.NewPlugin(1).OnDone() // a refused one was never in force
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
	take := func(context uint32) *vm.Plugin {
		t.Helper()
		taken := started(v, context, fmt.Sprint(context), requestsConfig)
		if taken == nil {
			t.Fatal("refused")
		}
		return taken
	}
	const build = "warmgate_build_info;version=unknown;revision=unknown"
	idle, busy, stuck := take(7), take(8), take(9)
	const policy = "warmgate_policy_info;policy=global_least_request"
	if busy.OnTick(); p.metrics.values[build] != 1 || p.metrics.values[policy] != 1 {
		t.Error("the build is not shown to run, or not its policy")
	}
	busy.CallSent()
	busy.CallSent()
	stuck.CallSent()
	if !idle.OnDone() || busy.OnDone() || stuck.OnDone() {
		t.Error("the gateway has to wait for one without calls, or not for those with some")
	}
	if v.Newest() != nil {
		t.Error("configurations that are done are in force still")
	}
	if p.metrics.values[build] != 0 || p.metrics.values[policy] != 0 {
		t.Error("the build is still shown to run, or its policy")
	}
	v.Stats.Measured(&measured.Request{Policy: "global_least_request"}) // no tick comes any more
	if n := p.metrics.values["warmgate_requests_total;policy=global_least_request;outcome=ok"]; n != 1 {
		t.Errorf("%d requests are counted behind the last configuration, want 1", n)
	}
	busy.Answer("an answer")(func() {})
	if len(p.left) != 0 {
		t.Errorf("%v may be dropped although an answer is missing", p.left)
	}
	busy.Answer("an answer")(func() { panic("oops") })
	if len(p.left) != 1 || p.left[0] != 8 {
		t.Errorf("%v may be dropped, want 8", p.left)
	}
	p.now += 10*time.Second - time.Millisecond // for as long as one is kept
	stuck.OnTick()
	if len(p.left) != 1 {
		t.Error("too little patience")
	}
	p.now += time.Millisecond
	stuck.OnTick()
	if len(p.left) != 2 || p.left[1] != 9 {
		t.Errorf("%v may be dropped, want 9 as well", p.left)
	}
	stuck.OnTick()
	stuck.Answer("an answer")(func() {})
	if len(p.left) != 2 {
		t.Errorf("%v: one of them twice", p.left)
	}
}
