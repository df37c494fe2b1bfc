package streamtest

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// often scrapes at a short interval, so that scenarios are short. Metrics stay fresh while a busy machine scrapes less
// often; those under briefly do not.
const (
	often   = `"metrics":{"interval":"400ms","stale_after":"5m"}`
	briefly = `"metrics":{"interval":"400ms","stale_after":"2s"}`
)

// metricsScenarios are those of endpoint_metrics. An engine's metrics are known to the plugin once requests go where
// they should by them.
var metricsScenarios = []scenario{
	{name: "others' requests count", policy: endpointMetrics, endpoints: 2, config: often, run: othersCount},
	{name: "no engine has metrics", policy: endpointMetrics, endpoints: 2, config: briefly, run: withoutMetrics},
	{name: "pages that stand still", policy: endpointMetrics, endpoints: 2, config: briefly, run: pagesStandStill},
	{name: "damaged pages", policy: endpointMetrics, endpoints: 4, config: often, run: func(t *run) {
		t.setPages(vllm(12), "\x00\xff{{{\n# garbage\nvllm:num_requests_running{ 3\n"+vllm(12), "", cutPage())
		until(t, "none goes to a busy one", chat(), 6, func(c *crowd) bool {
			return c.counts[0]+c.counts[1] == 0 && c.counts[3] > 0
		})
		t.wantDrained()
	}},
	{
		name: "an adapter's requests go where it is", policy: endpointMetrics, endpoints: 3, config: often,
		run: adaptersCount,
	},
	{name: "least of a metric", policy: endpointMetrics, endpoints: 3, config: `"metric_policy":"least","target_metric":"my_gauge",` + often, run: func(t *run) {
		t.setPages("my_gauge 30\n", "my_gauge 3\n", "my_gauge{a=\"b\"} 20\n")
		until(t, "it goes to the least", chat(), 1, allAt(1))
		t.setPages("my_gauge 1\n", "my_gauge 300\n")
		until(t, "it goes to the new least", chat(), 1, allAt(0))
		for range 10 {
			if c := gather(t, chat(), 1); c.counts[0] != 1 || c.reasons["chosen"] != 1 {
				t.Errorf("though nothing has changed a request goes to the endpoints as %v, for %v",
					c.counts, c.reasons)
			}
		}
		t.wantDrained()
	}},
	{name: "rate limit", policy: endpointMetrics, endpoints: 4, config: often, run: limitsShare},
	{
		name: "load reports are the plugin's", policy: endpointMetrics, endpoints: 2, config: reporting,
		run: func(t *run) {
			t.setPages(vllm(0), vllm(0))
			until(t, "metrics are there", chat(), 4, allFor("chosen"))
			for _, own := range []string{"", "JSON"} {
				r := chat()
				want := "TEXT"
				if own != "" {
					r.Headers, want = [][2]string{{reportFormat, own}}, own
				}
				s := t.begin(r)
				if got := s.Received().Headers[reportFormat]; got != want {
					t.Errorf("the client requested %q, and the endpoint was requested %q", own, got)
				}
				s.Head(200, report(1))
				t.finish(s)
				if got, ok := s.Result().Headers[reportHeader]; ok != (own != "") {
					t.Errorf("the client requested %q and got the report %q", own, got)
				}
			}
			t.wantDrained()
		},
	},
	{name: "load reports alone", policy: endpointMetrics, endpoints: 2, config: reporting, run: func(t *run) {
		until(t, "all go to the one that reports no queue", chat(), 4, allAt(1), 20, 0)
		until(t, "some go back", chat(), 12, func(c *crowd) bool { return c.counts[0] > 0 }, 0, 20)
		t.wantDrained()
	}},
	{name: "prefix_cache goes by metrics, too", policy: prefixCache, endpoints: 2, config: often, run: func(t *run) {
		t.setPages(vllm(12), vllm(0))
		until(t, "all go to the idle one", chat(), 4, allAt(1))
		t.setPages(vllm(0), vllm(12))
		until(t, "all go to the other one", chat(), 4, allAt(0))
		t.wantDrained()
	}},
	{name: "engines come and go", policy: endpointMetrics, endpoints: 2, config: often, run: func(t *run) {
		t.setPages(vllm(12), vllm(12))
		until(t, "metrics are there", chat(), 4, allFor("chosen"))
		t.SetEndpoints(make([]Endpoint, 3))
		t.size = 3
		t.SetPage(2, vllm(0))
		until(t, "all go to the new one", chat(), 4, allAt(2))
		t.SetEndpoints(make([]Endpoint, 2))
		t.size = 2
		until(t, "the others take over", chat(), 4, allFor("chosen"))
		t.wantDrained()
	}},
	{name: "a lost VM", policy: endpointMetrics, endpoints: 2, config: often, needs: []Ability{
		LostVM, PickWorker, SimulatedTime,
	}, run: func(t *run) {
		t.setPages(vllm(12), vllm(0))
		until(t, "all go to the idle one", chat(), 4, allAt(1))
		t.Lose(0)
		t.Advance(7 * time.Second)
		t.setPages(vllm(0), vllm(12))
		until(t, "all go to the other one", chat(), 4, allAt(0))
		t.wantDrained()
	}},
	{
		name: "requests that are rare", needs: []Ability{RareMetrics},
		policy: endpointMetrics, endpoints: 2, config: briefly, run: rare,
	},
	{name: "policies change while traffic flows", endpoints: 3, run: changesPolicy},
}

// The headers of load reports.
const (
	reportFormat = "endpoint-load-metrics-format"
	reportHeader = "endpoint-load-metrics"
)

const reporting = `"metrics":{"interval":"400ms","stale_after":"10s","orca":true}`

func report(waiting float64) [2]string {
	return [2]string{
		reportHeader,
		fmt.Sprintf("TEXT named_metrics.num_requests_waiting=%.1f, named_metrics.kv_cache_usage_perc=0.0", waiting),
	}
}

// vllm returns a page of vLLM's with so many requests in the batch, and further lines.
func vllm(running int, lines ...string) string {
	page := "# TYPE vllm:num_requests_running gauge\n" +
		fmt.Sprintf("vllm:num_requests_running{engine=\"0\"} %d\nvllm:num_requests_waiting{engine=\"0\"} "+
			"0\nvllm:kv_cache_usage_perc{engine=\"0\"} 0\n", running)
	return page + strings.Join(lines, "")
}

// cutPage is as much of a page of an idle engine as Higress stores. It ends within a line that reports a busy engine.
func cutPage() string {
	const most = 64 << 10
	page, last := vllm(0), `vllm:num_requests_running{engine="1"} 40`
	for len(page) < most-len(last) {
		page += strings.Repeat("#", min(100, most-len(last)-len(page)-1)) + "\n"
	}
	return page + last
}

// gather is the outcome of some requests that were open at the same time.
type crowd struct {
	size    int
	counts  []int          // per endpoint
	reasons map[string]int // in the clients' debug headers
}

// allAt is the condition that all requests of a crowd go to the endpoint.
func allAt(endpoint int) func(*crowd) bool {
	return func(c *crowd) bool { return c.counts[endpoint] == c.size }
}

// allFor is the condition that all of them go where they go for that reason.
func allFor(reason string) func(*crowd) bool {
	return func(c *crowd) bool { return c.reasons[reason] == c.size }
}

// gather opens n requests, lets time pass, ends them and returns where they went. With reports, endpoints report in
// their answers that so many requests wait there.
func gather(t *run, r Request, n int, reports ...float64) *crowd {
	t.Helper()
	c := &crowd{size: n, counts: make([]int, t.size), reasons: map[string]int{}}
	streams := make([]*stream, n)
	for i := range streams {
		r.Worker = i % t.Workers()
		streams[i] = t.begin(r)
		c.counts[streams[i].Upstream()]++
	}
	t.Advance(250 * time.Millisecond) // Higress shows pages only while a request is served
	for _, s := range streams {
		if len(reports) > 0 {
			s.Head(200, report(reports[s.Upstream()]))
		}
		t.finish(s)
		c.reasons[s.header("x-warmgate-reason")]++
	}
	return c
}

// until gathers n requests until two crowds in a row meet the condition: the first may have met one worker only.
func until(t *run, what string, r Request, n int, ok func(*crowd) bool, reports ...float64) {
	t.Helper()
	var c *crowd
	for good, tries := 0, 0; tries < 60; tries++ {
		if c = gather(t, r, n, reports...); !ok(c) {
			good = 0
			continue
		}
		if good++; good == 2 {
			return
		}
	}
	t.Errorf("%s: never; at last requests went to the endpoints as %v, for %v", what, c.counts, c.reasons)
}

// othersCount: load that an engine reports beyond what this gateway has sent there is load of others, and only that.
func othersCount(t *run) {
	t.setPages(vllm(12), vllm(0))
	until(t, "all go to the idle one", chat(), 6, allAt(1))
	open := t.chats(8)
	t.wantLoads(0, 8)
	t.setPages(vllm(0), vllm(8))
	until(t, "all go to the other one", chat(), 4, allAt(0))
	open = append(open, t.chats(12)...)
	t.wantLoads(10, 10)
	t.finish(open...)
	t.wantDrained()
}

// withoutMetrics: without metrics the gateway decides, and nothing is counted.
func withoutMetrics(t *run) {
	fresh := t.ofCluster("warmgate_metrics_fresh_endpoints")
	native := decisionsOf(endpointMetrics, "no_metrics")
	t.mark(native)
	until(t, "without metrics", chat(), 6, allFor("no_metrics"))
	for range 2 {
		t.setPages(vllm(12), vllm(12))
		until(t, "with metrics", chat(), 6, allFor("chosen"))
		wantGaugeInFlight(t, fresh, 2)
		t.setPages("", "")
		until(t, "with metrics gone", chat(), 6, allFor("no_metrics"))
		wantGaugeInFlight(t, fresh, 0)
		streams := t.chats(4)
		t.wantLoads(0, 0)
		t.finish(streams...)
		for _, s := range streams {
			if host, ok := s.Result().Headers["x-warmgate-host"]; ok {
				t.Errorf("the client got the header of a choice, %s", host)
			}
		}
	}
	if !t.Await(func() bool { return t.grown(native) >= 3*2*6 }) {
		t.Errorf("%s is %d after at least 36 requests without metrics", native, t.grown(native))
	}
	t.wantDrained()
}

// pagesStandStill: pages that stay the same although the engines have answered count as none, until they move again.
func pagesStandStill(t *run) {
	const tokens = "vllm:generation_tokens_total{engine=\"0\"} "
	answers := 0
	move := func() {
		answers++
		for i := range t.size {
			t.SetPage(i, vllm(0, tokens+fmt.Sprint(answers)+"\n"))
		}
	}
	fresh := t.ofCluster("warmgate_metrics_fresh_endpoints")
	for range 2 {
		move()
		until(t, "while pages move", chat(), 6, func(c *crowd) bool {
			move()
			return c.reasons["chosen"] == 6
		})
		until(t, "when they stand still", chat(), 6, allFor("no_metrics"))
		wantGaugeInFlight(t, fresh, 0)
	}
	if name := "warmgate_metrics_scrapes_total;result=frozen"; !t.Await(func() bool { return t.Counter(name) > 0 }) {
		t.Error("none is counted as frozen")
	}
	t.wantDrained()
}

// wantGaugeInFlight is wantGauge while requests are being served.
func wantGaugeInFlight(t *run, name string, want uint64) {
	t.Helper()
	streams := t.chats(t.Workers())
	t.Advance(1200 * time.Millisecond)
	t.wantGauge(name, want)
	t.finish(streams...)
}

// rare: metrics of engines count also for a request long after the previous one. In simulated time the first request
// has no previous one either.
func rare(t *run) {
	t.setPages(vllm(12), vllm(0))
	n := 12
	if t.Lacks(SimulatedTime) != "" {
		n = 2
		until(t, "metrics are there", chat(), 4, allFor("chosen"))
	}
	for i := range n {
		if i > 0 || n == 2 {
			t.Advance(3 * time.Second) // longer than metrics are fresh
		}
		s := t.begin(t.chatIn(i))
		t.Advance(250 * time.Millisecond)
		t.finish(s)
		if got := s.header("x-warmgate-reason"); got != "chosen" {
			t.Errorf("request %d of %d got the reason %q", i+1, n, got)
		}
		if s.Upstream() != 1 && i > 0 { // one busy page may be that of a moment
			t.Errorf("request %d of %d went to the busy endpoint", i+1, n)
		}
	}
	t.wantDrained()
}

// adaptersCount: a request for an adapter goes where that is loaded, however its name is escaped in the JSON, and
// arrives complete.
func adaptersCount(t *run) {
	loaded := func(names string) string {
		return vllm(0, `vllm:lora_requests_info{max_lora="1",running_lora_adapters="`+names+`",waiting_lora_adapters="`+names+`"} 17`+"\n")
	}
	t.setPages(loaded("other"), loaded("another"), loaded(`sql \"lora\"`))
	body := `{"messages":[{"role":"user","content":"hello"}],"model":"s\u0071l \"l\u006fra\""}`
	r := Request{Frames: []string{body[:20], body[20:]}}
	until(t, "all go where the adapter is", r, 6, allAt(2))
	s := t.begin(r)
	s.wantReceived(body)
	t.wantLoads(0, 0, 1)
	t.finish(s)
	until(t, "another model goes anywhere", chat(), 6, func(c *crowd) bool {
		return slices.Equal(c.counts, []int{2, 2, 2})
	})
	t.setPages(loaded(`sql \"lora\"`), loaded("another"), loaded("other"))
	until(t, "all go where the adapter is now", r, 6, allAt(0))
	t.wantDrained()
}

// limitsShare: the best endpoint gets its share and no more, and the next best gets the rest.
func limitsShare(t *run) {
	t.setPages(vllm(0), vllm(20), vllm(40), vllm(40))
	until(t, "all go to the best", chat(), 6, allAt(0))
	t.apply(`"rate_limit":0.6,` + often)
	counts := make([]int, t.size)
	const n = 30
	for i := range n {
		s := t.begin(t.chatIn(i))
		counts[s.Upstream()]++
		t.Advance(150 * time.Millisecond) // the workers learn of each other's requests
		t.finish(s)
	}
	if most := n*6/10 + 2; counts[0] > most || counts[0] < most-4 || counts[0]+counts[1] != n {
		t.Errorf("of %d requests, the endpoints got %v; want 60 %% for the best one and the rest for the next", n,
			counts)
	}
	t.wantDrained()
}

var allPolicies = []string{"global_least_request", endpointMetrics, prefixCache}

// decided returns how many requests any of the policies has decided on, or could not for want of metrics.
func decided(t *run) (n uint64) {
	for _, policy := range allPolicies {
		n += t.Counter(decisionsOf(policy, "chosen")) + t.Counter(decisionsOf(policy, "no_metrics"))
	}
	return n
}

// changesPolicy opens requests under each policy in turn, and ends them under the next ones.
func changesPolicy(t *run) {
	t.setPages(vllm(0), vllm(0), vllm(0))
	sent, before := 0, decided(t)
	var open []*stream
	for round := range 9 {
		t.policy = allPolicies[round%3]
		t.apply(often)
		open = append(open, t.chats(6)...)
		sent += 6
		t.Advance(100 * time.Millisecond)
		if len(open) > 12 {
			t.finish(open[:6]...)
			open = open[6:]
		}
	}
	t.finish(open...)
	t.wantDrained()
	if !t.Await(func() bool { return decided(t)-before == uint64(sent) }) {
		t.Errorf("%d of %d requests were decided", decided(t)-before, sent)
	}
	t.policy = endpointMetrics
	t.apply(often)
	until(t, "metrics are read again", chat(), 6, allFor("chosen"))
	t.wantDrained()
}
