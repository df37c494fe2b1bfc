package core

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/endpoints"
	"github.com/warmgate/warmgate/plugin/process"
	"github.com/warmgate/warmgate/plugin/stats"
	"github.com/warmgate/warmgate/plugin/stores"
)

// namedStream is a request to a cluster whose name the client has chosen.
type namedStream struct {
	*fakeStream
	cluster string
}

func (s namedStream) Cluster() string { return s.cluster }

// openNamed sends a request to a cluster of the given name.
func (w *fakeWorker) openNamed(cluster string) *fakeStream {
	s := &fakeStream{process: w.process, worker: w, request: streamtest.Request{}.Filled()}
	s.Stream = w.process.host.NewStream()
	s.Filter = s
	s.core = NewStream(w.current, 1, namedStream{s, cluster})
	s.in(func() { s.core.OnRequestHeaders(true) })
	return s
}

func TestNamesThatClientsChoose(t *testing.T) {
	d := startFake(t, 1, 2, requestsConfig)
	d.serve(0, 200)
	for i := range 3 * endpoints.MaxClusters {
		d.workers[0].openNamed("made-up-" + strconv.Itoa(i)).end()
	}
	d.advance(2 * time.Second)
	if n := len(d.workers[0].vm.Clusters); n != 1 {
		t.Errorf("%d clusters are kept, of which one exists", n)
	}
	for _, name := range d.metrics.names {
		if strings.Contains(name, "made-up") {
			t.Errorf("a statistic has the name %s", name)
		}
	}
	if got := d.metrics.decisions()["no_endpoints"]; got != 3*endpoints.MaxClusters {
		t.Errorf("%d decisions without endpoints, want %d", got, 3*endpoints.MaxClusters)
	}
}

// Where every name has endpoints, as with a fixed list, the number of clusters is bounded all the same.
func TestClustersAreBounded(t *testing.T) {
	d := startFake(t, 1, 2, requestsConfig)
	d.anyCluster = true
	var first *fakeStream
	for i := range endpoints.MaxClusters + 10 {
		s := d.workers[0].openNamed("cluster-" + strconv.Itoa(i))
		if i == 0 {
			first = s
			continue
		}
		s.end()
	}
	if n := len(d.workers[0].vm.Clusters); n != endpoints.MaxClusters {
		t.Errorf("%d clusters are kept, want %d", n, endpoints.MaxClusters)
	}
	d.now += endpoints.ClusterAge - stores.HeartbeatPeriod
	d.advance(stores.HeartbeatPeriod + process.TickPeriod)
	d.advance(2 * time.Second)
	if cl := d.workers[0].vm.Clusters; len(cl) != 1 || cl["cluster-0"] == nil {
		t.Errorf("%d clusters are kept when all but the first are idle", len(cl))
	}
	first.end()
	d.advance(2 * time.Second)
	if n := len(d.workers[0].vm.Clusters); n != 0 {
		t.Errorf("%d clusters are kept when all are idle", n)
	}
	d.serve(0, 200)
	if got := d.workers[0].vm.Clusters[fakeCluster]; got == nil {
		t.Error("there is room again, but not for a new cluster")
	}
}

// Any number of clusters may come and go, as long as few are in use at a time.
func TestClustersInTurn(t *testing.T) {
	d := startFake(t, 1, 2, requestsConfig)
	d.anyCluster = true
	const names = 1000
	for i := range names {
		d.workers[i%len(d.workers)].openNamed("cluster-" + strconv.Itoa(i)).end()
	}
	if got := d.metrics.decisions(); got["chosen"] != names {
		t.Errorf("decisions %v, want %d chosen", got, names)
	}
	d.advance(2 * time.Second)
	for name, n := range d.metrics.values {
		if strings.HasPrefix(name, stats.Inflight) && n != 0 {
			t.Errorf("%s is %d at rest", name, n)
		}
	}
}

// Configurations are replaced many times; the state of a cluster stays, and memory does not grow.
func TestManyConfigurations(t *testing.T) {
	d := startFake(t, 1, 3, requestsConfig)
	v := d.workers[0].vm
	bad := d.serve(0, 200)
	health, caches := v.Clusters[fakeCluster].Health, v.Clusters[fakeCluster].Caches
	for range 2 {
		health.Observe(d.now, lb.Outcome{Addr: bad, Verdict: lb.Failure}, ejectConfig)
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
	d.advance(2 * stores.HeartbeatPeriod)
	if n := len(v.Clusters[fakeCluster].Policies); n != 1 {
		t.Errorf("%d policies are kept, 1 is in force", n)
	}
	if len(v.Clusters) != 1 || v.Clusters[fakeCluster].Health != health || v.Clusters[fakeCluster].Caches != caches {
		t.Error("the cluster is another one")
	}
}

// A cluster with many rules keeps the policy of each, and of no other configuration.
func TestPoliciesOfManyRules(t *testing.T) {
	var list []string
	for i := range 64 {
		const rule = `{"_match_domain_":["d%d"],"lb_policy":"global_least_request","lb_config":{"max_inflight":%d}}`
		list = append(list, fmt.Sprintf(rule, i, 10+i))
	}
	d := startFake(t, 1, 2, `{"_rules_":[`+strings.Join(list, ",")+`]}`)
	v := d.workers[0].vm
	made := map[lb.Policy]bool{}
	for range 3 {
		for _, c := range v.Newest().Set.All() {
			_, p, err := v.Clusters.Get(v.Clock(), fakeCluster, c)
			if err != nil {
				t.Fatal(err)
			}
			made[p] = true
		}
		d.advance(2 * stores.HeartbeatPeriod)
	}
	if len(made) != 64 {
		t.Errorf("%d policies were made for 64 rules", len(made))
	}
	if !d.configure(`{"lb_policy":"global_least_request"}`) {
		t.Fatal("refused")
	}
	d.advance(2 * stores.HeartbeatPeriod)
	if n := len(v.Clusters[fakeCluster].Policies); n != 0 {
		t.Errorf("%d policies of rules that have gone are kept", n)
	}
}
