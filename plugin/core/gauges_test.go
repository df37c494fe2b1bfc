package core

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/plugin/endpoints"
	"github.com/warmgate/warmgate/plugin/stats"
	"github.com/warmgate/warmgate/plugin/stores"
)

func TestTokensHaveGaugesOnlyWhenCounted(t *testing.T) {
	d := startFake(t, 1, 1, requestsConfig)
	d.serve(0, 200)
	d.advance(2 * time.Second)
	for name := range d.metrics.kinds {
		if strings.HasPrefix(name, stats.Tokens) {
			t.Errorf("%s is there although requests are counted", name)
		}
	}
}

// The gauges of a cluster that was not used for long are those of an idle one, whatever their last values.
func TestGaugesOfAForgottenCluster(t *testing.T) {
	d := startFake(t, 2, 2, metricsConfig)
	d.pages = map[string]string{d.Addr(0): vllmPage(0), d.Addr(1): vllmPage(0)}
	d.client(0, streamtest.Request{}).Finish()
	d.advance(2 * time.Second)
	if n := d.metrics.values[stats.Fresh+";cluster="+fakeCluster]; n != 2 {
		t.Fatalf("metrics of %d endpoints are fresh, want 2", n)
	}
	d.advance(endpoints.ClusterAge + 2*time.Second)
	if n := len(d.workers[0].vm.Clusters); n != 0 {
		t.Fatalf("%d clusters are known", n)
	}
	for name, n := range d.metrics.values {
		if d.metrics.kinds[name] == "gauge" && strings.Contains(name, ";cluster=") && n != 0 {
			t.Errorf("%s is %d", name, n)
		}
	}
}

func endpointGauges(d *fakeDriver) (names []string) {
	for name, kind := range d.metrics.kinds {
		if kind == "gauge" && strings.HasPrefix(name, stats.Inflight+";") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// maxGauges is how many endpoints of a cluster have gauges at the same time.
const maxGauges = 64

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
	old := d.workers[0].open(streamtest.Request{}.Filled())
	d.advance(1100 * time.Millisecond)
	gone := stats.Inflight + ";cluster=" + fakeCluster + ";endpoint=" + d.Addr(0)
	if got := d.metrics.values[gone]; got != 1 {
		t.Errorf("%s is %d, want 1", gone, got)
	}
	d.SetEndpoints(nil)
	for range 2 * maxGauges {
		d.SetEndpoints(make([]streamtest.Endpoint, 1))
		d.serve(0, 200)
		d.advance(1100 * time.Millisecond)
		if name := stats.Inflight + ";cluster=" + fakeCluster + ";endpoint=" + d.Addr(0); d.metrics.kinds[name] == "" {
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
	if n := len(d.workers[0].vm.Clusters[fakeCluster].Shown.Endpoints()); n > 2 {
		t.Errorf("%d endpoints are kept in mind, of which one is there", n)
	}
}

// Tokens are counted under a rule that counts requests only while another that is in force needs them.
func TestTokensAreCountedWhileNeeded(t *testing.T) {
	d := startFake(t, 1, 2, `{"lb_policy":"global_least_request","lb_config":{"unit":"tokens"}}`)
	d.serve(0, 200)
	v := d.workers[0].vm
	if !v.Clusters[fakeCluster].Tokens {
		t.Error("tokens are not counted")
	}
	if !d.configure(requestsConfig) {
		t.Fatal("refused")
	}
	d.advance(2 * stores.HeartbeatPeriod)
	if v.Clusters[fakeCluster].Tokens {
		t.Error("tokens are counted although no rule in force does")
	}
}

// The load under a configuration that has been replaced is shown until its requests have ended.
func TestGaugesOutliveAConfiguration(t *testing.T) {
	d := startFake(t, 1, 2, `{"lb_policy":"global_least_request","lb_config":{"unit":"tokens"}}`)
	c := d.client(0, streamtest.Request{Frames: []string{`{"prompt":"hello"}`}})
	d.advance(2 * stores.HeartbeatPeriod) // a VM keeps what it has shown
	const labels = ";cluster=" + fakeCluster + ";endpoint="
	gauge := func(stat string) uint64 {
		d.advance(2 * stores.HeartbeatPeriod)
		return d.Gauge(stat+labels+d.Addr(0)) + d.Gauge(stat+labels+d.Addr(1))
	}
	if !d.configure(requestsConfig) {
		t.Fatal("refused")
	}
	if n, tokens := gauge(stats.Inflight), gauge(stats.Tokens); n != 1 || tokens == 0 {
		t.Errorf("%d requests and %d tokens are shown in flight, want 1 and its tokens", n, tokens)
	}
	c.Head(200)
	c.Finish()
	if n, tokens := gauge(stats.Inflight), gauge(stats.Tokens); n != 0 || tokens != 0 {
		t.Errorf("%d requests and %d tokens are shown in flight, want 0", n, tokens)
	}
}

func TestEjectionsHaveAStatisticOnlyWhenThereWasOne(t *testing.T) {
	d := startFake(t, 1, 2, requestsConfig)
	name := stats.Ejections + ";cluster=" + fakeCluster
	d.serve(0, 200)
	d.advance(2 * time.Second)
	if d.metrics.kinds[name] != "" {
		t.Error("it is there before the first ejection")
	}
	for i, s := 0, d.workers[0].vm.Stats; s.CountIf(strconv.Itoa(i), 0); i++ { // until there is no room
	}
	d.ejects(0, d.Addr(0))
	d.advance(2 * time.Second)
	if d.metrics.kinds[name] != "" {
		t.Error("it is there although the VM has defined all the statistics that it may")
	}
	d = startFake(t, 1, 2, requestsConfig)
	d.serve(0, 200)
	d.ejects(0, d.Addr(0))
	d.advance(2 * time.Second)
	if got := d.metrics.values[name]; got != 1 {
		t.Errorf("with room for it, it counts %d, want 1", got)
	}
}
