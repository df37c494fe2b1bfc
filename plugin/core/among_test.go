package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/health"
	"github.com/warmgate/warmgate/plugin/stats"
	"github.com/warmgate/warmgate/plugin/views"
)

// amongConfig returns a configuration that chooses among the clusters a, b and c.
func amongConfig(policy, members string) string {
	if members != "" {
		members += ","
	}
	return `{"lb_type":"cluster","lb_policy":"` + policy + `","lb_config":{` + members +
		`"service_list":["a","b","c"],"debug_headers":true}}`
}

const leastBusy = `"mode":"LeastBusy","health":{"slow_start":0}`

// startSites returns a process with two endpoints in each of the clusters a, b and c, and one in the route's own.
func startSites(t *testing.T, workers int, config string) *fakeDriver {
	t.Helper()
	d := &fakeDriver{fakeProcess: newFakeProcess(t, workers)}
	d.useSites()
	if !d.configure(config) {
		t.Fatalf("refused: %s", config)
	}
	return d
}

func (d *fakeDriver) useSites() {
	d.SetEndpoints(make([]streamtest.Endpoint, 7))
	d.known = map[string]*lb.View{}
	d.sites = map[string][]int{"a": {0, 1}, "b": {2, 3}, "c": {4, 5}, fakeCluster: {6}}
}

// inCluster returns how many requests are counted in a cluster.
func (d *fakeDriver) inCluster(name string) int64 {
	return d.counted(views.ClustersScope+fakeRoute, name)
}

// emptied fails the test unless nothing is in flight in any cluster.
func (d *fakeDriver) emptied() {
	d.t.Helper()
	for _, name := range []string{"a", "b", "c"} {
		if n := d.inCluster(name); n != 0 {
			d.t.Errorf("%d requests are left in %s", n, name)
		}
	}
	d.drained()
}

// Requests are spread over the clusters by what is in flight there, over all workers, and nothing is left when they
// have ended, however that was.
func TestAmongClusters(t *testing.T) {
	for _, config := range []string{
		amongConfig("global_least_request", ""), amongConfig("cluster_metrics", leastBusy),
		amongConfig("cluster_metrics", `"mode":"AdaptiveScore","p2c_choices":3`),
		amongConfig("prefix_cache", ""),
	} {
		d := startSites(t, 3, config)
		var open []*fakeStream
		for i := range 30 {
			open = append(open, d.client(i%3, streamtest.Request{Frames: []string{fmt.Sprintf(`{"prompt":"%d"}`, i)}}))
		}
		for _, name := range []string{"a", "b", "c"} {
			if n := d.inCluster(name); n != 10 {
				t.Errorf("%s: %d in %s", config, n, name)
			}
		}
		for i, c := range open {
			if to := c.header("x-higress-target-cluster"); to != c.target() || !strings.Contains("abc", to) {
				t.Errorf("the header has %q", to)
			}
			c.endBy(i)
		}
		d.advance(time.Second)
		d.emptied()
		if got := open[0].Result().Headers["x-warmgate-cluster"]; got != open[0].target() {
			t.Errorf("the debug header has %q, the request went to %q", got, open[0].target())
		}
		if !strings.HasPrefix(d.access[0], "cluster="+open[0].target()+" reason=chosen load=") {
			t.Errorf("the access log has %q", d.access[0])
		}
	}
}

// What a client sends in the header never decides: neither when a cluster is chosen, nor when the request falls back.
func TestForgedClusterHeader(t *testing.T) {
	const key = "x-higress-target-cluster"
	for name, c := range map[string]struct {
		config string
		want   string // cluster; "" for a chosen one
	}{
		"chosen": {amongConfig("cluster_metrics", leastBusy), ""},
		"shadow": {amongConfig("cluster_metrics", leastBusy+`,"shadow":true`), fakeCluster},
		"no rule": {
			`{"_rules_":[{"_match_route_":["other"],` + amongConfig("global_least_request", "")[1:] + `]}`, fakeCluster,
		},
		"all refused": {`{"lb_type":"cluster"}`, fakeCluster},
		"switched off": {`{"enabled":false,"_rules_":[{"_match_route_":["other"],` +
			amongConfig("global_least_request", "")[1:] + `]}`, fakeCluster},
	} {
		d := startSites(t, 1, c.config)
		for range 20 {
			s := d.client(0, streamtest.Request{Headers: [][2]string{{key, "forged"}}})
			if c.want == "" && !strings.Contains("abc", s.target()) || c.want != "" && s.target() != c.want {
				t.Errorf("%s: the request went to %s", name, s.target())
			}
			s.Finish()
		}
		d.emptied()
	}
}

// Neither does it in the header that a route uses which no valid part names: one that is refused, as a whole or not, or
// switched off, or does not choose among clusters.
func TestForgedHeaderOfARefusedPart(t *testing.T) {
	part := amongConfig("cluster_metrics", `"mode":"LeastBusy","cluster_header":"X-Site"`)
	refused := strings.Replace(part, `"mode"`, `"max_inflight":-1,"mode"`, 1)
	regions := strings.Replace(regionConfig("us", "eu", `,"cluster_header":"x-site"`), regionSecret, "short", 1)
	beside := func(part string) string {
		return `{"enabled":false,"_rules_":[{"_match_route_":["other"],` + part[1:] + `]}`
	}
	for name, config := range map[string]string{
		"as a whole": refused, "in part": beside(refused), "switched off": `{"enabled":false,` + part[1:],
		"among endpoints": strings.Replace(part, `"lb_type":"cluster","lb_policy":"cluster_metrics"`,
			`"lb_type":"endpoint","lb_policy":"global_least_request"`, 1),
		"regions": beside(regions), "misplaced": beside(`{"cluster_header":"x-site"}`),
		"not in this version": beside(strings.Replace(part, "cluster_metrics", "token_budget", 1)),
	} {
		for _, key := range []string{"x-site", "x-higress-target-cluster"} {
			d := startSites(t, 1, config)
			s := d.client(0, streamtest.Request{Headers: [][2]string{{key, "forged"}}})
			if s.Request.Headers.Has(key) && (key == "x-site" || strings.Contains(name, "as a whole")) {
				t.Errorf("%s: what the client has sent in %s is passed on", name, key)
			}
			s.conclude()
		}
	}
}

// A cluster without a healthy endpoint is left out until it has one; without any the route's serves, with a reason.
func TestUnavailableClusters(t *testing.T) {
	d := startSites(t, 1, amongConfig("cluster_metrics", leastBusy))
	state := func(s lb.State, clusters ...string) {
		for _, name := range clusters {
			for _, i := range d.sites[name] {
				d.endpoints[i].State = s
			}
		}
	}
	serve := func() map[string]int {
		to := map[string]int{}
		for range 30 {
			c := d.client(0, streamtest.Request{})
			to[c.target()]++
			c.Finish()
			d.advance(50 * time.Millisecond)
		}
		return to
	}
	if to := serve(); len(to) != 3 {
		t.Errorf("all are healthy: %v", to)
	}
	state(lb.Unhealthy, "b")
	if to := serve(); to["b"] > 0 || to["a"] == 0 || to["c"] == 0 {
		t.Errorf("b is not: %v", to)
	}
	state(lb.Ejected, "a", "c")
	if to := serve(); to[fakeCluster] != 30 {
		t.Errorf("none is: %v", to)
	}
	if n := d.metrics.decisions()["no_cluster_available"]; n != 30 {
		t.Errorf("%d counted, want 30", n)
	}
	state(lb.Healthy, "a", "b", "c")
	if to := serve(); len(to) != 3 {
		t.Errorf("all are again: %v", to)
	}
	d.emptied()
}

// A cluster that fails, of which nothing else is known, is ejected, and comes back after that. So does one that only
// the gateway knows to be unusable.
func TestFailingClusters(t *testing.T) {
	for name, fail := range map[string]func(c *fakeStream){
		"500":   func(c *fakeStream) { c.Head(500); c.Finish() },
		"reset": func(c *fakeStream) { c.ResetByUpstream() },
		"breaker": func(c *fakeStream) {
			c.answer(503, "upstream_reset_before_response_started{overflow}")
		},
		"nobody": func(c *fakeStream) {
			c.moveTo(-1)
			c.answer(503, "no_healthy_upstream")
		},
	} {
		d := startSites(t, 1, amongConfig("cluster_metrics", leastBusy))
		d.known = map[string]*lb.View{}
		serve := func(n int, failing bool) (failed int) {
			for range n {
				c := d.client(0, streamtest.Request{Client: fmt.Sprintf("10.1.0.%d", d.rand.IntN(200))})
				if failing && c.target() == "c" {
					failed++
					fail(c)
				} else {
					c.Finish()
				}
				d.advance(10 * time.Millisecond)
			}
			return failed
		}
		serve(60, false)
		if n := serve(300, true); n > 12 || n == 0 {
			t.Errorf("%s: %d of 300 requests went to the cluster that fails", name, n)
		}
		d.advance(time.Minute)
		before := d.Counter(stats.Clusters + ";cluster=c;result=served")
		serve(600, false)
		if n := d.Counter(stats.Clusters+";cluster=c;result=served") - before; n < 150 {
			t.Errorf("%s: %d of 600 requests went to the cluster that has recovered", name, n)
		}
		d.emptied()
	}
}

// Clients that leave are no fault of a cluster, however long they have waited.
func TestClientsThatLeaveAmongClusters(t *testing.T) {
	for _, mode := range []string{"LeastBusy", "AdaptiveScore", "LeastTotalLatency", "LeastFirstTokenLatency"} {
		d := startSites(t, 1, amongConfig("cluster_metrics", `"mode":"`+mode+`","health":{"slow_start":0}`))
		for range 40 {
			c := d.client(0, streamtest.Request{})
			d.advance(6 * time.Second)
			c.ResetByClient()
		}
		cl := d.workers[0].vm.Clusters[views.ClustersScope+fakeRoute]
		for _, view := range cl.Views {
			list, _ := cl.Health.Candidates(d.now, view, &health.ClusterConfig{}, 0)
			for _, c := range list.Candidates {
				if c.Weight != 1 {
					t.Errorf("%s: %s has weight %v", mode, c.Addr, c.Weight)
				}
			}
		}
		d.emptied()
	}
}

// A request that is served by another cluster than the chosen one counts there; by one that is not among them, nowhere.
func TestServedByAnotherCluster(t *testing.T) {
	d := startSites(t, 1, amongConfig("cluster_metrics", leastBusy))
	c := d.client(0, streamtest.Request{})
	from, to := c.target(), "b"
	if from == "b" {
		to = "c"
	}
	c.serveIn(to, d.sites[to][0])
	c.Head(200)
	if d.inCluster(from) != 0 || d.inCluster(to) != 1 || d.Counter(stats.Moves) != 1 {
		t.Errorf("%d in %s, %d in %s", d.inCluster(from), from, d.inCluster(to), to)
	}
	c.Finish()
	// a cluster that stands for several is reported under its own name: the address tells which of them serves
	c = d.client(0, streamtest.Request{})
	from, to = c.target(), "a"
	if from == "a" {
		to = "b"
	}
	c.serveIn("several", d.sites[to][1])
	c.Head(200)
	if d.inCluster(from) != 0 || d.inCluster(to) != 1 {
		t.Errorf("by its address: %d in %s, %d in %s", d.inCluster(from), from, d.inCluster(to), to)
	}
	c.Finish()
	c = d.client(0, streamtest.Request{})
	c.serveIn(fakeCluster, 6)
	c.Head(200)
	if n := d.Counter(stats.Misrouted); n != 1 {
		t.Errorf("%d strays", n)
	}
	c.Finish()
	d.emptied()
}

// A panic in any call on the way leaves nothing behind, and the request is served.
func TestPanicsAmongClusters(t *testing.T) {
	start := func() *fakeDriver { return startSites(t, 1, amongConfig("cluster_metrics", leastBusy)) }
	plain := func(int) streamtest.Request { return streamtest.Request{} }
	for _, call := range []string{
		"SetCluster", "KnownView", "Breakers", "Route", "SetNote", "Now", "Random", "RequestHeaders",
	} {
		panicIn(t, call, start, plain, (*fakeDriver).emptied)
	}
}

// Two routes with one configuration have a view each, which stays the same while the clusters do.
func TestViewsOfRoutes(t *testing.T) {
	d := startSites(t, 1, amongConfig("cluster_metrics", leastBusy))
	v := d.workers[0].vm
	c := v.Newest().Set.All()[0]
	first, second := v.Views.Of(d.now, "clusters/a", c), v.Views.Of(d.now, "clusters/b", c)
	for range 3 {
		if v.Views.Of(d.now, "clusters/a", c) != first || v.Views.Of(d.now, "clusters/b", c) != second {
			t.Fatal("a view is made anew though nothing has changed")
		}
	}
	if first == second || first.Cluster != "clusters/a" || second.Cluster != "clusters/b" {
		t.Errorf("views of %s and %s", first.Cluster, second.Cluster)
	}
}

// What serves a request is looked for in the cluster that the gateway reports, and in others only if it is not there.
func TestOneClusterIsSearched(t *testing.T) {
	d := startSites(t, 1, amongConfig("cluster_metrics", leastBusy))
	for served := ""; served != "c"; {
		c := d.client(0, streamtest.Request{})
		served = c.target()
		const enough = 1000
		d.fault, d.faultLeft = "KnownView", enough
		c.Head(200)
		if n := enough - d.faultLeft; n > 2 { // at the headers, and when the lease follows
			t.Errorf("%d clusters are searched for what serves a request of %s", n, served)
		}
		d.fault = ""
		c.Finish()
	}
	d.emptied()
}

// A request that waits gets whichever cluster has room first, also one that it would not have been compared with.
func TestWaitingRequestsTakeAnyCluster(t *testing.T) {
	for _, mode := range []string{`"mode":"AdaptiveScore","health":{"slow_start":0}`, leastBusy + `,"rate_limit":0.4`} {
		d := startSites(t, 2, amongConfig("cluster_metrics", mode+
			`,"max_inflight":1,"queue":{"max_wait":"20s"}`))
		for i := range 30 {
			var open []*fakeStream
			for n := range 3 {
				open = append(open, d.client(n%2, streamtest.Request{}))
			}
			waiting := d.client(i%2, streamtest.Request{})
			if !waiting.Held() {
				t.Fatalf("%s: the fourth request goes to %s", mode, waiting.target())
			}
			leaves := open[i%3]
			leaves.Finish()
			d.advance(10 * time.Millisecond)
			if waiting.Held() || waiting.target() != leaves.target() {
				t.Fatalf("%s: %s has room, and the request that waits is held: %t, or at %s", mode, leaves.target(),
					waiting.Held(), waiting.target())
			}
			open[i%3] = waiting
			for _, c := range open {
				c.Finish()
			}
		}
		d.emptied()
	}
}
