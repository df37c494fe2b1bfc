package engines

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/metrics"
	"github.com/warmgate/warmgate/plugin/discovery"
	"github.com/warmgate/warmgate/plugin/endpoints"
	"github.com/warmgate/warmgate/plugin/process"
	"github.com/warmgate/warmgate/plugin/stats"
)

type sampleMap = map[string]engines.Sample

const metricsConfig = `{"lb_policy":"endpoint_metrics","lb_config":{"debug_headers":true,"health":{"slow_start":0}}}`

// vllmPage is a page of vLLM's with so many requests in the batch.
func vllmPage(running int) string {
	return fmt.Sprintf("vllm:num_requests_running %d\nvllm:num_requests_waiting 0\nvllm:kv_cache_usage_perc 0.5\n",
		running)
}

// sampledVMs returns the VMs of one process that need the metrics of fakeCluster, and what its engines are scraped for.
func sampledVMs(t *testing.T, n int, raw string) (p *fakeGateway, vms []*fakeVM, j *scrapeJob) {
	t.Helper()
	p, vms = demandingVMs(t, n, raw)
	for _, v := range vms {
		v.need(fakeCluster, 0)
		v.demand.announce(p.now)
	}
	if j = vms[0].jobs(p.now)[fakeCluster]; j == nil {
		t.Fatal("no engine is scraped")
	}
	return p, vms, j
}

// published returns what the VMs have published.
func (g *fakeGateway) published() sampleMap {
	g.t.Helper()
	all, err := discovery.ParseEngineSamples([]byte(g.kv.Cells[process.KeySamples+fakeCluster].Val))
	if err != nil {
		g.t.Fatal(err)
	}
	return all.By
}

// running returns the requests in the batch of a sample.
func running(r engines.Sample) float64 {
	n, _ := r.Value(metrics.Running)
	return n
}

func TestPagesAreChecked(t *testing.T) {
	const addr = "10.0.0.1:8000"
	for _, c := range []struct {
		page, result string
		ok           bool
		counted, log string
	}{
		{vllmPage(1), endpoints.ScrapeOK, true, "ok", ""},
		{"vllm:num_requests_running 1\n", endpoints.ScrapeOK, true, "ok", addr + " reports no"},
		{
			"<html>404</html>", endpoints.ScrapeOK, false, "unreadable",
			addr + " answers, but not with metrics of a known engine",
		},
		{"", endpoints.ScrapeOK, false, "unreadable", "not with metrics"},
		{"process_cpu_seconds_total 1\n", endpoints.ScrapeOK, false, "unreadable", "not with metrics"},
		{"", endpoints.ScrapeStatus + " 404", false, "status", "status 404"},
		{"", endpoints.ScrapeTimeout, false, "timeout", "timeout"},
		{"", endpoints.ScrapeIncomplete, false, "incomplete", "incomplete"},
		{"", endpoints.ScrapeEncoded, false, "encoded", "encoded"},
		{"", endpoints.ScrapeUnreachable, false, "unreachable", "unreachable"},
		{"", endpoints.ScrapeNone, false, "none", "store_metrics"},
	} {
		p, vms, j := sampledVMs(t, 1, metricsConfig)
		before := maps.Clone(p.metrics.values)
		if ok := vms[0].addPage(p.now, j, addr, []byte(c.page), c.result); ok != c.ok {
			t.Errorf("%s %q is used: %v", c.result, c.page, ok)
		}
		if name := stats.Scrapes + ";result=" + c.counted; p.metrics.values[name] != before[name]+1 {
			t.Errorf("%s %q is counted as %v", c.result, c.page, p.metrics.values)
		}
		if log := strings.Join(p.log, "\n"); !strings.Contains(log, c.log) ||
			c.log == "" && strings.Contains(log, addr) {
			t.Errorf("%s %q: the log has %q, want %q", c.result, c.page, log, c.log)
		}
		vms[0].publishSamples(p.now)
		if _, there := p.kv.Cells[process.KeySamples+fakeCluster]; there != c.ok {
			t.Errorf("%s %q is published: %v", c.result, c.page, there)
		}
	}
}

// A failing engine changes neither the samples of the others nor its own previous sample.
func TestOneBadPageOfMany(t *testing.T) {
	p, vms, j := sampledVMs(t, 1, metricsConfig)
	v := vms[0]
	addrs := []string{"10.0.0.1:8000", "10.0.0.2:8000", "10.0.0.3:8000"}
	first := p.now
	for i, addr := range addrs {
		v.addPage(first, j, addr, []byte(vllmPage(i)), endpoints.ScrapeOK)
	}
	v.publishSamples(first)
	for k, bad := range []string{"garbage", "", "\x00\xff\n{", "vllm:num_requests_running nonsense\n"} {
		now := first + time.Duration(k+1)*time.Second
		for i, addr := range addrs {
			page := vllmPage(10*(k+1) + i)
			if i == 1 {
				page = bad
			}
			v.addPage(now, j, addr, []byte(page), endpoints.ScrapeOK)
		}
		v.publishSamples(now)
		got := p.published()
		if r := got[addrs[1]]; r.At != first || r.FreshAt != first || running(r) != 1 {
			t.Errorf("after %q its sample is %+v, want the previous one", bad, r)
		}
		for i, addr := range addrs {
			if r := got[addr]; i != 1 && (r.At != now || running(r) != float64(10*(k+1)+i)) {
				t.Errorf("after %q from another, %s has %+v", bad, addr, r)
			}
		}
	}
}

func TestFaultsAreLoggedOnce(t *testing.T) {
	p, vms, j := sampledVMs(t, 1, metricsConfig)
	v := vms[0]
	lines := func() int { return len(p.log) }
	before := lines()
	for range 100 {
		v.addPage(p.now, j, "10.0.0.1:8000", nil, endpoints.ScrapeTimeout)
		p.now += time.Second
	}
	if got := lines() - before; got != 1 {
		t.Errorf("a fault that lasts is %d times in the log", got)
	}
	v.addPage(p.now, j, "10.0.0.1:8000", nil, endpoints.ScrapeUnreachable)
	v.addPage(p.now, j, "10.0.0.2:8000", nil, endpoints.ScrapeTimeout)
	if got := lines() - before; got != 3 {
		t.Errorf("%d lines, want one for each engine and fault", got)
	}
	p.now += faultEvery
	v.addPage(p.now, j, "10.0.0.1:8000", nil, endpoints.ScrapeTimeout)
	if got := lines() - before; got != 4 {
		t.Errorf("%d lines; a fault that still lasts is logged again after %v", got, faultEvery)
	}
	before = lines()
	for i := range 10 * maxFaults {
		v.faults.log(p.now, fakeCluster, fmt.Sprint("fault ", i))
	}
	if got := lines() - before; got > maxFaults || len(v.faults.loggedAt) > maxFaults {
		t.Errorf("%d faults make %d lines, and %d are kept", 10*maxFaults, got, len(v.faults.loggedAt))
	}
	p.now += faultEvery
	before = lines()
	v.faults.log(p.now, fakeCluster, "one more")
	if lines() != before+1 {
		t.Error("once there were many faults, no new one is ever logged")
	}
}

// loadOf parses a page of metrics.
func loadOf(t *testing.T, text string) (l metrics.Snapshot) {
	t.Helper()
	p, err := metrics.New(metrics.AnyEngine)
	if err != nil {
		t.Fatal(err)
	}
	p.Parse([]byte(text), &l)
	return l
}

func TestSamplesMerge(t *testing.T) {
	const addr, other = "10.0.0.1:8000", "10.0.0.2:8000"
	now := time.Hour
	known := engines.Sample{
		Snapshot: loadOf(t, vllmPage(5)), At: now - 2*time.Second, ScrapedAt: now - 2*time.Second,
		FreshAt: now - 2*time.Second, Page: 77, Counted: true,
	}
	at := func(r engines.Sample, at, seen time.Duration) engines.Sample {
		if r.At, r.FreshAt = at, seen; r.ScrapedAt > 0 {
			r.ScrapedAt = at
		}
		return r
	}
	newer := engines.Sample{Snapshot: loadOf(t, vllmPage(6)), At: now, ScrapedAt: now, FreshAt: now, Page: 78}
	report := engines.Sample{Snapshot: loadOf(t, "vllm:num_requests_waiting 3\n"), At: now, FreshAt: now}
	same, older := at(known, known.At, now), at(newer, now-time.Minute, now-time.Minute)
	earlier, completed := at(report, now-1, now-1), report
	completed.Page, completed.ScrapedAt, completed.Snapshot = known.Page, known.ScrapedAt, known.Snapshot
	completed.Update(&report.Snapshot)
	again := newer
	again.Page, again.Snapshot = known.Page, known.Snapshot
	only := func(addr string) map[string]bool { return map[string]bool{addr: true} }
	for name, c := range map[string]struct {
		scraped, reported sampleMap
		listed            map[string]bool
		want              sampleMap
	}{
		"a newer page":                 {sampleMap{addr: newer}, nil, nil, sampleMap{addr: newer}},
		"an older page":                {sampleMap{addr: older}, nil, nil, sampleMap{addr: known}},
		"the same page":                {sampleMap{addr: {FreshAt: now}}, nil, nil, sampleMap{addr: same}},
		"the same page of a new one":   {sampleMap{other: {FreshAt: now}}, nil, nil, sampleMap{addr: known}},
		"the same page, scraped anew":  {sampleMap{addr: again}, nil, nil, sampleMap{addr: again}},
		"a report":                     {nil, sampleMap{addr: report}, nil, sampleMap{addr: completed}},
		"an older report":              {nil, sampleMap{addr: at(report, 1, 1)}, nil, sampleMap{addr: known}},
		"a report of a new one":        {nil, sampleMap{other: report}, nil, sampleMap{addr: known, other: report}},
		"one that has left":            {sampleMap{other: newer}, nil, only(other), sampleMap{other: newer}},
		"one that is not listed":       {sampleMap{other: newer}, nil, only(addr), sampleMap{addr: known}},
		"a page and an earlier report": {sampleMap{addr: newer}, sampleMap{addr: earlier}, nil, sampleMap{addr: newer}},
	} {
		all := discovery.EngineSamples{By: sampleMap{addr: known}, Gone: sampleMap{}}
		(&pendingSamples{scraped: c.scraped, reported: c.reported, listed: c.listed}).mergeInto(&all, now)
		if !maps.Equal(all.By, c.want) {
			t.Errorf("%s: %+v, want %+v", name, all.By, c.want)
		}
	}
	// A report that was published before a slightly older page still applies, and the page provides the rest.
	all := discovery.EngineSamples{By: sampleMap{addr: completed}, Gone: sampleMap{}}
	late := at(newer, now-time.Millisecond, now-time.Millisecond)
	(&pendingSamples{scraped: sampleMap{addr: late}}).mergeInto(&all, now)
	got := all.By[addr]
	waits, _ := got.Value(metrics.Waiting)
	if running(got) != 6 || waits != 3 || got.ScrapedAt != late.ScrapedAt || got.At != now || got.Page != 78 {
		t.Errorf("a page behind a report: %+v", got)
	}
	all = discovery.EngineSamples{By: sampleMap{addr: known}, Gone: sampleMap{}}
	new(pendingSamples).mergeInto(&all, known.FreshAt+demandAge+1)
	if len(all.By) != 0 {
		t.Error("a sample that is too old is kept")
	}
}

// In Higress a page applies until the next health check. Reading it again shows only that it does: neither when it was
// made, nor what was in flight then. All VMs know which page was read last.
func TestStoredPages(t *testing.T) {
	const addr = "10.0.0.1:8000"
	p, vms, _ := sampledVMs(t, 2, metricsConfig)
	start := p.now
	read := func(worker int, page string) engines.Sample {
		t.Helper()
		p.now += time.Second
		v := vms[worker]
		v.refreshSamples(p.now)
		v.addPage(p.now, v.jobs(p.now)[fakeCluster], addr, []byte(page), endpoints.ScrapeOK)
		v.publishSamples(p.now)
		return p.published()[addr]
	}
	first := read(0, vllmPage(5))
	if first.At != p.now || running(first) != 5 || !first.Counted {
		t.Fatalf("%+v", first)
	}
	for i := range 4 {
		if r := read(i%2, vllmPage(5)); r.At != first.At || r.FreshAt != p.now {
			t.Errorf("%v later the same page makes a reading of %v, seen at %v", p.now-first.At, r.At-start,
				r.FreshAt-start)
		}
	}
	seen := p.now
	for i := range 4 { // whichever VM reads it, and however often, garbage renews no earlier sample
		if r := read(i%2, "garbage"); r.At != first.At || r.FreshAt != seen {
			t.Errorf("garbage makes a reading of %v, seen at %v", r.At-start, r.FreshAt-start)
		}
	}
	if r := read(1, vllmPage(5)); r.FreshAt != p.now {
		t.Errorf("the page from before is back, and seen at %v", r.FreshAt-start)
	}
	if r := read(1, vllmPage(6)); r.At != p.now || running(r) != 6 {
		t.Errorf("a new page makes the reading %+v", r)
	}
	// Another configuration reads other metrics of the same page.
	if !p.configure(strings.Replace(metricsConfig, `{"debug`, `{"metric_policy":"least","target_metric":"my_gauge","debug`,
		1)) {
		t.Fatal("refused")
	}
	for _, v := range vms {
		v.need(fakeCluster, 0)
		v.demand.announce(p.now)
	}
	if r := read(0, "my_gauge 3\n"+vllmPage(6)); r.At != p.now {
		t.Errorf("for a new target the reading is %+v", r)
	}
	for range 3 {
		if r := read(1, "my_gauge 3\n"+vllmPage(6)); r.FreshAt != p.now {
			t.Errorf("with a target, the same page is seen at %v", r.FreshAt-start)
		}
	}
}

// The samples of all VMs are merged, whichever was first and whatever swaps were lost.
func TestSamplesOfSeveralVMs(t *testing.T) {
	p, vms, j := sampledVMs(t, 3, metricsConfig)
	for i, v := range vms {
		v.addPage(p.now, j, fmt.Sprintf("10.0.0.%d:8000", i+1), []byte(vllmPage(i)), endpoints.ScrapeOK)
	}
	lost := 2
	p.kv.OnSet = func(key string, _ []byte, _ uint32) error {
		if lost--; lost >= 0 && strings.HasPrefix(key, process.KeySamples) {
			return lb.ErrMismatch
		}
		return nil
	}
	for range 2 {
		for _, v := range vms {
			v.publishSamples(p.now)
		}
	}
	if n := len(p.published()); n != len(vms) {
		t.Errorf("readings of %d engines are published, want %d", n, len(vms))
	}
	for i, v := range vms {
		v.refreshSamples(p.now)
		if n := v.clusters[fakeCluster].engines.CountFresh(p.now, time.Second); n != len(vms) {
			t.Errorf("VM %d knows of %d engines", i, n)
		}
	}
	p.kv.OnSet = nil
	_ = p.kv.Set(process.KeySamples+fakeCluster, []byte("damaged"), 0)
	for i, v := range vms {
		if v.refreshSamples(p.now); v.clusters[fakeCluster].engines.CountFresh(p.now, time.Second) !=
			len(vms) {
			t.Errorf("VM %d forgets what it knows for a value that is damaged", i)
		}
	}
	vms[0].addPage(p.now+1, j, "10.0.0.1:8000", []byte(vllmPage(7)), endpoints.ScrapeOK)
	vms[0].publishSamples(p.now + 1)
	if got := p.published(); len(got) != 1 || running(got["10.0.0.1:8000"]) != 7 {
		t.Errorf("over a damaged value is written %+v", got)
	}
}

// A page stands still until another one comes, whatever is reported meanwhile.
func TestFrozenPagesMerge(t *testing.T) {
	const addr = "10.0.0.1:8000"
	now := time.Hour
	sample := func(running int, page uint64, at time.Duration, frozen bool) engines.Sample {
		return engines.Sample{
			Snapshot: loadOf(t, vllmPage(running)), Page: page, At: at, ScrapedAt: at, FreshAt: at, Frozen: frozen,
		}
	}
	known, frozen := sample(5, 77, now-1, false), sample(5, 77, now-1, true)
	report := engines.Sample{Snapshot: loadOf(t, "vllm:num_requests_waiting 3\n"), At: now, FreshAt: now}
	noted := map[string]engines.PageMark{addr: known.Mark()}
	for name, c := range map[string]struct {
		before engines.Sample
		p      pendingSamples
		want   bool
	}{
		"it stands still":     {known, pendingSamples{frozen: noted}, true},
		"it has moved since":  {sample(5, 78, now-1, false), pendingSamples{frozen: noted}, false},
		"the same is stored":  {frozen, pendingSamples{scraped: sampleMap{addr: {FreshAt: now}}}, true},
		"the same is scraped": {frozen, pendingSamples{scraped: sampleMap{addr: sample(5, 77, now, false)}}, true},
		"a report comes":      {frozen, pendingSamples{reported: sampleMap{addr: report}}, true},
		"another page comes":  {frozen, pendingSamples{scraped: sampleMap{addr: sample(5, 78, now, false)}}, false},
	} {
		all := discovery.EngineSamples{By: sampleMap{addr: c.before}, Gone: sampleMap{}}
		if c.p.mergeInto(&all, now); all.By[addr].Frozen != c.want {
			t.Errorf("%s: %+v", name, all.By[addr])
		}
	}
}

// Higress shows pages to requests only: they are read in the context of one that is being served.
func TestWhoseContextIsRead(t *testing.T) {
	g, vms := demandingVMs(t, 1, metricsConfig)
	v, first, second := vms[0], &Request{Context: 7}, &Request{Context: 8}
	v.need(fakeCluster, 0)
	m := v.clusters[fakeCluster]
	read := func() uint32 { return v.newJob(g.now, fakeCluster, g.set.All()[0]).Request }
	if read() != 0 {
		t.Error("a context although there is no request")
	}
	v.NeededBy(first, m, g.set.All()[0])
	if at := read(); at != 7 {
		t.Errorf("the context is %d, want 7", at)
	}
	v.NeededBy(second, m, g.set.All()[0])
	m.Gone(first)
	if at := read(); at != 8 || len(m.Open()) != 1 {
		t.Errorf("the context is %d, want 8, of %d that are open", at, m.Open())
	}
	m.Gone(second)
	if read() != 0 {
		t.Error("the context of a request that is over")
	}
}
