package engines

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/internal/order"
	"github.com/warmgate/warmgate/plugin/endpoints"
)

const ranksConfig = `{"lb_policy":"endpoint_metrics","lb_config":{"ranks":{"enabled":true}}}`

// rankedPage is a page of vLLM's with engines of which the i-th runs i requests.
func rankedPage(ranks int) string {
	var b strings.Builder
	for i := range ranks {
		fmt.Fprintf(&b, "vllm:num_requests_running{engine=\"%d\"} %d\n", i, i)
		fmt.Fprintf(&b, "vllm:num_requests_waiting{engine=\"%d\"} 0\n", i)
	}
	return b.String()
}

// Pages become a sample for each rank where rules take ranks for endpoints, and one of the server where others do not.
// What a server has no longer is gone, also once it cannot be reached: it may come back with fewer.
func TestSamplesByRank(t *testing.T) {
	const a, b, began = "10.0.0.1:8000", "10.0.0.2:8000", "process_start_time_seconds "
	p, vms, j := sampledVMs(t, 2, ranksConfig)
	whole := false // there are rules that take the server for one endpoint
	scrape := func(addr, page, result string) {
		p.now += time.Second
		vms[0].ReadClock()
		j = vms[0].jobs(p.now)[fakeCluster]
		j.whole = whole
		vms[0].addPage(p.now, j, addr, []byte(page), result)
		vms[0].publishSamples(p.now)
		for _, v := range vms {
			v.refreshSamples(p.now)
		}
	}
	is := func(what string, want ...string) {
		if got := order.Keys(p.published()); !slices.Equal(got, want) {
			t.Errorf("%s: samples of %v, want %v", what, got, want)
		}
	}
	scrape(a, rankedPage(3), endpoints.ScrapeOK)
	scrape(b, rankedPage(1), endpoints.ScrapeOK)
	is("three ranks and one", a+"#0", a+"#1", a+"#2", b)
	if got := running(p.published()[a+"#2"]); got != 2 {
		t.Errorf("%v run on the third rank", got)
	}
	scrape(a, rankedPage(3), endpoints.ScrapeOK) // stored pages may be the same
	if r := p.published()[a+"#2"]; r.FreshAt != p.now || running(r) != 2 {
		t.Errorf("a page that has not changed: %+v at %v", r, p.now)
	}
	scrape(a, "", endpoints.ScrapeTimeout)
	is("after a timeout", a+"#0", a+"#1", a+"#2", b)
	scrape(a, rankedPage(2), endpoints.ScrapeOK)
	is("with fewer", a+"#0", a+"#1", b)
	if n := vms[1].clusters[fakeCluster].engines.Ranks(a); n != 2 {
		t.Errorf("the other VM knows %d ranks", n)
	}
	scrape(a, "", endpoints.ScrapeUnreachable)
	is("away once", a+"#0", a+"#1", b)
	p.now += j.Config.Engines.StaleAfter
	scrape(a, "", endpoints.ScrapeUnreachable)
	is("gone", b)
	scrape(a, rankedPage(2)+began+"5000\n", endpoints.ScrapeOK)
	scrape(a, "", endpoints.ScrapeUnreachable)
	scrape(a, rankedPage(2)+began+"5100\n", endpoints.ScrapeOK)
	for _, addr := range []string{a + "#0", a + "#1"} {
		if r := p.published()[addr]; r.LostAt != p.now {
			t.Errorf("%s was started anew: %+v", addr, r)
		}
	}
	whole = true
	scrape(a, rankedPage(2), endpoints.ScrapeOK)
	is("for rules of both kinds", a, a+"#0", a+"#1", b)
	if got := running(p.published()[a]); got != 1 {
		t.Errorf("%v run on the server", got)
	}
}

// A server without the ranks that are configured is logged.
func TestRanksThatAreMissing(t *testing.T) {
	p, vms, j := sampledVMs(t, 1, ranksConfig)
	j.Config.Ranks.Count = 4
	vms[0].addPage(p.now, j, "10.0.0.2:8000", []byte(rankedPage(1)), endpoints.ScrapeOK)
	if log := strings.Join(p.log, "\n"); !strings.Contains(log, "10.0.0.2:8000 shows no metrics by rank") {
		t.Errorf("logged: %s", log)
	}
}

// Load reports are of the whole server.
func TestReportsAreOfNoRank(t *testing.T) {
	p, vms, j := sampledVMs(t, 1, ranksConfig)
	vms[0].AddReport(p.now, j.Config, fakeCluster, "10.0.0.1:8000#1", "TEXT num_requests_waiting=3")
	if n := len(vms[0].pendingOf(fakeCluster).reported); n != 0 {
		t.Errorf("%d reports are taken", n)
	}
}
