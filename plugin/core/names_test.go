package core

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
)

// namedStream is a request to a cluster whose name the client has chosen.
type namedStream struct {
	*fakeStream
	cluster string
}

func (s namedStream) Cluster() string { return s.cluster }

// openNamed sends a request to a cluster of the given name.
func (w *fakeWorker) openNamed(cluster string) *fakeStream {
	s := &fakeStream{
		process: w.process, worker: w, request: streamtest.Request{}.Filled(), endpoint: -1,
		headers: map[string]string{},
	}
	s.core = w.current.NewStream(1, namedStream{s, cluster})
	s.in(func() { s.core.OnRequestHeaders(true) })
	return s
}

func TestNamesThatClientsChoose(t *testing.T) {
	d := startFake(t, 1, 2, requestsConfig)
	d.serve(0, 200)
	for i := range 3 * maxClusters {
		d.workers[0].openNamed("made-up-" + strconv.Itoa(i)).end()
	}
	d.advance(2 * time.Second)
	if n := len(d.workers[0].vm.clusters); n != 1 {
		t.Errorf("%d clusters are kept, of which one exists", n)
	}
	for _, name := range d.metrics.names {
		if strings.Contains(name, "made-up") {
			t.Errorf("a statistic has the name %s", name)
		}
	}
	if got := d.metrics.decisions()["no_endpoints"]; got != 3*maxClusters {
		t.Errorf("%d decisions without endpoints, want %d", got, 3*maxClusters)
	}
}

// Where every name has endpoints, as with a fixed list, the number of clusters is bounded all the same.
func TestClustersAreBounded(t *testing.T) {
	d := startFake(t, 1, 2, requestsConfig)
	d.anyCluster = true
	var first *fakeStream
	for i := range maxClusters + 10 {
		s := d.workers[0].openNamed("cluster-" + strconv.Itoa(i))
		if i == 0 {
			first = s
			continue
		}
		s.end()
	}
	if n := len(d.workers[0].vm.clusters); n != maxClusters {
		t.Errorf("%d clusters are kept, want %d", n, maxClusters)
	}
	d.now += clusterAge - heartbeatPeriod
	d.advance(heartbeatPeriod + tickPeriod)
	d.advance(2 * time.Second)
	if cl := d.workers[0].vm.clusters; len(cl) != 1 || cl["cluster-0"] == nil {
		t.Errorf("%d clusters are kept when all but the first are idle", len(cl))
	}
	first.end()
	d.advance(2 * time.Second)
	if n := len(d.workers[0].vm.clusters); n != 0 {
		t.Errorf("%d clusters are kept when all are idle", n)
	}
	d.serve(0, 200)
	if got := d.workers[0].vm.clusters[fakeCluster]; got == nil {
		t.Error("there is room again, but not for a new cluster")
	}
}

func TestEjectionsHaveAStatisticOnlyWhenThereWasOne(t *testing.T) {
	d := startFake(t, 1, 2, requestsConfig)
	name := statEjections + ";cluster=" + fakeCluster
	d.serve(0, 200)
	d.advance(2 * time.Second)
	if d.metrics.kinds[name] != "" {
		t.Error("it is there before the first ejection")
	}
	s := d.workers[0].vm.stats
	for i := len(s.ids); i < maxNames; i++ {
		s.ids[strconv.Itoa(i)] = 0
	}
	d.ejects(0, d.Addr(0))
	d.advance(2 * time.Second)
	if d.metrics.kinds[name] != "" {
		t.Error("it is there although the VM has defined all the statistics that it may")
	}
	delete(s.ids, strconv.Itoa(maxNames-1))
	d.advance(2 * time.Second)
	if got := d.metrics.values[name]; got != 1 {
		t.Errorf("with room for it, it counts %d, want 1", got)
	}
}

func TestRecent(t *testing.T) {
	r := newRecent[int, string](3)
	now := time.Hour
	for i := range 3 {
		r.put(now, i, strconv.Itoa(i))
	}
	now += clusterAge
	if v, ok := r.get(now, 1); !ok || v != "1" {
		t.Errorf("got %q, %v", v, ok)
	}
	r.put(now+1, 3, "3") // 0 and 2 have not been used for too long
	if _, ok := r.get(now, 1); !ok || len(r.entries) != 2 {
		t.Errorf("%d are kept, want 1 and 3", len(r.entries))
	}
	for i := range 100 {
		r.put(now+2, 10+i, "")
		if len(r.entries) > 3 {
			t.Fatalf("%d are kept, want at most 3", len(r.entries))
		}
		if _, ok := r.get(now+2, 10+i); !ok {
			t.Fatal("the newest made room for itself")
		}
	}
	r.drop(109)
	if v, ok := r.get(now+2, 109); ok || v != "" {
		t.Error("what was dropped is still there")
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
		if strings.HasPrefix(name, statInflight) && n != 0 {
			t.Errorf("%s is %d at rest", name, n)
		}
	}
}
