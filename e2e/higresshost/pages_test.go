package higresshost_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/higresshost"
)

const (
	byMetrics = `{"lb_type":"endpoint","lb_policy":"endpoint_metrics","lb_config":{"debug_headers":true,"health":{"slow_start":0}}}`
	byReports = `{"lb_type":"endpoint","lb_policy":"endpoint_metrics","lb_config":{"metrics":{"orca":true},"rate_limit":0.5}}`
)

// storedPage is as much as Higress has stored of a vLLM's page, with so many requests in the batch and tokens of
// prompts.
func storedPage(tb testing.TB, n, running, size int) string {
	tb.Helper()
	text, err := os.ReadFile("../../metrics/testdata/vllm-0.32.0.prom")
	if err != nil {
		tb.Fatal(err)
	}
	page := fmt.Sprintf("vllm:prompt_tokens_total{engine=\"1\"} %d\nvllm:num_requests_running{engine=\"1\"} %d\n%s", n,
		running, text)
	return (page + strings.Repeat("# and more of it\n", 1+size/17))[:size]
}

// mostStored is the length in bytes of a page that Higress stores.
const mostStored = 64 << 10

// fleet is a gateway before endpoints.
func fleet(tb testing.TB, workers, endpoints int) *higresshost.Gateway {
	tb.Helper()
	gw := higresshost.Start(tb, higresshost.Options{
		Wasm: harness.ModuleT(tb, harness.HostHigress), Config: byMetrics,
		Workers: workers,
	})
	for i := range endpoints {
		gw.Cluster("llm").Add(fmt.Sprintf("10.0.0.%d:8000", i+1))
	}
	return gw
}

// checkHealth stores so many bytes of metrics for each endpoint, once a second.
func checkHealth(tb testing.TB, gw *higresshost.Gateway, size int) {
	n := 0
	var check func()
	check = func() {
		for _, e := range gw.Cluster("llm").Endpoints() {
			n++
			e.Metrics = storedPage(tb, n, 0, size)
		}
		gw.After(time.Second, check)
	}
	check()
}

// reads counts what the plugin reads of the host list, and how many of the pages in it are parsed.
type reads struct {
	gw    *higresshost.Gateway
	lists int
	bytes int
	pages uint64
}

// during counts what is read while f runs.
func (r *reads) during(f func()) {
	parsed := func() (n uint64) {
		for _, result := range []string{"ok", "unreadable"} {
			n += r.gw.Metrics().Counter("warmgate_metrics_scrapes_total;result=" + result)
		}
		return n
	}
	r.gw.ResetCalls()
	before := parsed()
	f()
	stat := r.gw.HostCalls()["get_upstream_hosts"]
	r.lists, r.bytes, r.pages = r.lists+stat.Calls, r.bytes+stat.Bytes, r.pages+parsed()-before
}

// Half a megabyte of metrics is parsed by one worker of the gateway once an interval, at its tick. While there is
// traffic, ticks also refresh the list of the hosts, so that requests after the first neither parse nor copy any of it.
func TestPagesAreReadAtTicks(t *testing.T) {
	const (
		workers = 4
		seconds = 5
	)
	for _, c := range []struct{ endpoints, size int }{{8, mostStored}, {100, 4 << 10}} {
		t.Run(fmt.Sprint(c.endpoints), func(t *testing.T) {
			gw := fleet(t, workers, c.endpoints)
			checkHealth(t, gw, c.size)
			inRequests, atTicks := traffic(gw, seconds)
			if most := uint64(c.endpoints); inRequests.pages > most { // the first one finds nothing fresh
				t.Errorf("requests had %d pages parsed, want at most %d", inRequests.pages, most)
			}
			if inRequests.lists > 2*workers {
				t.Errorf("requests read %d lists of hosts, %d KiB; want no more than the first ones", inRequests.lists,
					inRequests.bytes>>10)
			}
			if most := workers*5*seconds + seconds + 1; atTicks.lists > most {
				t.Errorf("ticks read %d lists in %d s, want at most %d", atTicks.lists, seconds, most)
			}
			if n := uint64(c.endpoints); atTicks.pages < n*(seconds-1) || atTicks.pages > n*(seconds+1) {
				t.Errorf("%d pages were parsed in %d s; want %d a second", atTicks.pages, seconds, n)
			}
			if got := decisionsOf(gw, "endpoint_metrics", "chosen"); got < seconds*20*2*workers*9/10 {
				t.Errorf("%d requests went where metrics sent them, want nearly all of %d", got, seconds*20*2*workers)
			}
			audit(t, gw)
		})
	}
}

// traffic sends requests through every worker for some seconds, long ones and short ones, and returns what was read
// during them and what between them.
func traffic(gw *higresshost.Gateway, seconds int) (inRequests, atTicks *reads) {
	inRequests, atTicks = &reads{gw: gw}, &reads{gw: gw}
	var open []*higresshost.Stream
	end := func() {
		for _, s := range open {
			s.Respond(200, "ok")
		}
		open = open[:0]
	}
	for range seconds * 20 {
		inRequests.during(func() {
			end()
			for _, w := range gw.Workers() {
				post(w).Respond(200, "ok")
				open = append(open, post(w))
			}
		})
		atTicks.during(func() { gw.Advance(50 * time.Millisecond) })
	}
	end()
	return inRequests, atTicks
}

// Pages without usable metrics are not read more often than good ones, and those that stay the same are parsed once.
func TestUselessPages(t *testing.T) {
	const (
		workers = 2
		seconds = 5
	)
	for name, c := range map[string]struct {
		page   string
		parsed uint64 // at most
	}{
		"none": {"", 0}, "garbage": {strings.Repeat("<html>\x00", 3000), workers * 8 * (seconds + 1)},
		"the same": {storedPage(t, 1, 3, mostStored), 8},
	} {
		t.Run(name, func(t *testing.T) {
			gw := fleet(t, workers, 8)
			for _, e := range gw.Cluster("llm").Endpoints() {
				e.Metrics = c.page
			}
			var open []*higresshost.Stream
			for _, w := range gw.Workers() {
				open = append(open, post(w))
			}
			atTicks := &reads{gw: gw}
			for range seconds * 10 {
				atTicks.during(func() { gw.Advance(100 * time.Millisecond) })
			}
			if most := workers * (seconds + 1); atTicks.lists > most {
				t.Errorf("without new requests ticks read %d lists in %d s, want at most %d", atTicks.lists,
					seconds, most)
			}
			if atTicks.pages > c.parsed {
				t.Errorf("%d pages were parsed, want at most %d", atTicks.pages, c.parsed)
			}
			for _, s := range open {
				s.Respond(200, "ok")
			}
			audit(t, gw)
		})
	}
}

func decisionsOf(gw *higresshost.Gateway, policy, reason string) uint64 {
	return gw.Metrics().Counter("warmgate_decisions_total;policy=" + policy + ";reason=" + reason)
}
