package engines

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/plugin/endpoints"
	"github.com/warmgate/warmgate/plugin/process"
	"github.com/warmgate/warmgate/plugin/stats"
)

const (
	lossyAddr    = "10.0.0.1:8000"
	lossesOfFake = stats.Losses + ";cluster=" + fakeCluster
)

// startedPage is a page of vLLM's whose process began at that time.
func startedPage(at int) string {
	return fmt.Sprintf("process_start_time_seconds %d\n", at) + vllmPage(1)
}

// read has a VM read a page a second later, unless there is none, while the gateway lists the endpoints.
func (v *fakeVM) read(page string, listed ...string) engines.Sample {
	g := v.gateway
	g.t.Helper()
	g.now += time.Second
	if page != "" {
		v.addPage(g.now, v.jobs(g.now)[fakeCluster], lossyAddr, []byte(page), endpoints.ScrapeOK)
	}
	p := v.pendingOf(fakeCluster)
	p.listed = map[string]bool{}
	for _, addr := range listed {
		p.listed[addr] = true
	}
	if page == "" {
		p.scraped["10.0.0.9:8000"] = engines.Sample{} // something to publish
	}
	v.publishSamples(g.now)
	for _, w := range g.vms {
		w.refreshSamples(g.now)
	}
	return g.published()[lossyAddr]
}

// Whichever VM reads which page: all are told of a restart, one counts and logs it, and what a VM reads that has begun
// later says so too.
func TestRestartIsToldToAllVMs(t *testing.T) {
	g, vms, _ := sampledVMs(t, 3, metricsConfig)
	told := make([]time.Duration, len(vms))
	for i, v := range vms {
		v.clusters[fakeCluster].engines.OnLoss = func(_ string, at time.Duration) { told[i] = at }
	}
	vms[0].read(startedPage(1000), lossyAddr)
	if r := vms[1].read(startedPage(1000), lossyAddr); r.LostAt != 0 || told[0] != 0 {
		t.Fatalf("lost at %v before anything happened", r.LostAt)
	}
	swaps := 0
	g.kv.OnSet = func(key string, _ []byte, _ uint32) error { // is lost, once
		if swaps++; strings.HasPrefix(key, process.KeySamples) && swaps == 1 {
			return lb.ErrMismatch
		}
		return nil
	}
	vms[2].read(startedPage(2000), lossyAddr)
	at := g.now
	r := vms[2].read(startedPage(2000), lossyAddr)
	if r.LostAt < at || told[0] != r.LostAt || told[1] != r.LostAt || told[2] != r.LostAt {
		t.Errorf("restarted at %v, published %v, told %v", at, r.LostAt, told)
	}
	log := strings.Join(g.log, "\n")
	lines := strings.Count(log, lossyAddr+" has lost its cache: its process")
	if n := g.metrics.values[lossesOfFake]; n != 1 || lines != 1 {
		t.Errorf("counted %d times, the log has %s", n, log)
	}
	report := engines.Sample{At: g.now + 1, FreshAt: g.now + 1}
	vms[1].pendingOf(fakeCluster).reported[lossyAddr] = report
	if r = vms[1].read(startedPage(2000), lossyAddr); r.LostAt != told[0] {
		t.Errorf("later it is lost at %v, no longer %v", r.LostAt, told[0])
	}
}

// An engine that restarts is followed while its endpoint is not listed, and while other metrics are read of it.
func TestRestartOfAnEndpointThatWasGone(t *testing.T) {
	for name, meanwhile := range map[string]func(g *fakeGateway, v *fakeVM){
		"not listed": func(g *fakeGateway, v *fakeVM) {
			if v.read("", "10.0.0.2:8000"); len(g.published()) != 0 {
				t.Error("a sample of an endpoint that is not listed")
			}
		},
		"not read for long": func(g *fakeGateway, v *fakeVM) {
			g.now += demandAge
			v.read("", lossyAddr)
			v.ReadClock()
			v.need(fakeCluster, 0)
			v.demand.announce(g.now)
		},
		"another target": func(g *fakeGateway, v *fakeVM) {
			g.configure(strings.Replace(metricsConfig, `{"debug`,
				`{"metric_policy":"least","target_metric":"my_gauge","debug`, 1))
			v.need(fakeCluster, 0)
			v.demand.announce(g.now)
		},
	} {
		g, vms, _ := sampledVMs(t, 1, metricsConfig)
		v := vms[0]
		v.read(startedPage(1000), lossyAddr)
		meanwhile(g, v)
		if r := v.read(startedPage(2000), lossyAddr); r.LostAt != g.now || g.metrics.values[lossesOfFake] != 1 {
			t.Errorf("%s: lost at %v, now is %v", name, r.LostAt, g.now)
		}
		meanwhile(g, v)
		if r := v.read(startedPage(2000), lossyAddr); r.LostAt == 0 || g.metrics.values[lossesOfFake] != 1 {
			t.Errorf("%s, again: lost at %v, counted %d times", name, r.LostAt, g.metrics.values[lossesOfFake])
		}
	}
}

// A proxy that shows the pages of two engines in turn has one loss believed, and is named in the log once.
func TestPagesInTurn(t *testing.T) {
	g, vms, _ := sampledVMs(t, 1, metricsConfig)
	var first time.Duration
	for i := range 100 {
		r := vms[0].read(startedPage(1000*(1+i%2)), lossyAddr)
		if i == 1 {
			first = r.LostAt
		}
		if i > 0 && r.LostAt != first {
			t.Fatalf("at page %d it is lost at %v, the first time at %v", i, r.LostAt, first)
		}
	}
	log := strings.Join(g.log, "\n")
	if n := g.metrics.values[lossesOfFake]; n != 1 || strings.Count(log, "those of several engines") != 1 {
		t.Errorf("counted %d times, the log has %s", n, log)
	}
}

// What is kept of endpoints that are gone is bounded, and the latest of them.
func TestGoneSamplesAreBounded(t *testing.T) {
	gone := map[string]engines.Sample{"long gone": {FreshAt: time.Hour}}
	now := 2*time.Hour + 1
	for i := range maxGone + 10 {
		gone[fmt.Sprint(i)] = engines.Sample{FreshAt: now - time.Minute + time.Duration(i)}
	}
	forget(gone, now)
	_, oldest := gone["9"]
	if _, kept := gone["10"]; len(gone) != maxGone || !kept || oldest {
		t.Errorf("%d are kept", len(gone))
	}
}
