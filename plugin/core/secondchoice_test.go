package core

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/memstore"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/stats"
	"github.com/warmgate/warmgate/plugin/stores"
)

// nestedConfig chooses the least busy cluster, and an endpoint inside it.
func nestedConfig(members, policy, inside string) string {
	if members != "" {
		members = "," + members
	}
	return amongConfig("cluster_metrics", leastBusy+members+
		`,"endpoint":{"lb_policy":"`+policy+`","lb_config":{"health":{"slow_start":0}`+inside+`}}`)
}

// atEndpoints returns how many requests are counted at each endpoint.
func (d *fakeDriver) atEndpoints() (counts []int64) {
	d.t.Helper()
	for i, e := range d.endpoints {
		var in string
		for name, list := range d.sites {
			for _, member := range list {
				if member == i {
					in = name
				}
			}
		}
		loads, err := memstore.New(d.kv, 1, stores.LeaseTTL).Loads(in, []string{e.Addr}, nil)
		if err != nil {
			d.t.Fatal(err)
		}
		counts = append(counts, loads[0].Requests)
	}
	return counts
}

// emptiedInside is emptied, and nothing is in flight at any endpoint.
func (d *fakeDriver) emptiedInside() {
	d.t.Helper()
	for i, n := range d.atEndpoints() {
		if n != 0 {
			d.t.Errorf("%d requests are left at endpoint %d", n, i)
		}
	}
	d.emptied()
}

func prompted(i int) streamtest.Request {
	return streamtest.Request{Frames: []string{`{"model":"m",`, fmt.Sprintf(`"prompt":"%d"}`, i)}}
}

// Both choices are counted together, in the same request, and given back together, however it ends.
func TestEndpointInCluster(t *testing.T) {
	for _, policy := range []string{"global_least_request", "prefix_cache"} {
		d := startSites(t, 2, nestedConfig("", policy, ""))
		var open []*fakeStream
		for i := range 24 {
			c := d.client(i%2, prompted(i))
			if !strings.Contains(c.note, "cluster="+c.target()+" reason=chosen") ||
				!strings.Contains(c.note, " host="+d.endpoints[c.Upstream()].Addr+" reason=chosen") {
				t.Errorf("%s: the request went to %d in %s: %q", policy, c.Upstream(), c.target(), c.note)
			}
			if c.Received().Body != c.request.Frames[0]+c.request.Frames[1] || !c.Received().Ended {
				t.Errorf("%s: received %+v", policy, c.Received())
			}
			open = append(open, c)
		}
		for i, n := range d.atEndpoints()[:6] {
			if n != 4 {
				t.Errorf("%s: %d at endpoint %d", policy, n, i)
			}
		}
		for i, c := range open {
			if c.endBy(i); i%4 == 0 {
				for name, want := range map[string]string{
					"x-warmgate-cluster": c.target(), "x-warmgate-host": d.endpoints[c.Upstream()].Addr,
					"x-warmgate-reason": "chosen",
				} {
					if got := c.Result().Headers[name]; got != want {
						t.Errorf("%s: %s is %q, want %q", policy, name, got, want)
					}
				}
			}
		}
		d.advance(time.Second)
		d.emptiedInside()
	}
}

// A request that is served in another cluster moves the outer lease there, and the inner one ends.
func TestServedInsideAnotherCluster(t *testing.T) {
	d := startSites(t, 1, nestedConfig("", "global_least_request", ""))
	c := d.client(0, prompted(0))
	from, to := c.target(), "a"
	if from == "a" {
		to = "b"
	}
	c.serveIn(to, d.sites[to][0])
	c.Head(200)
	if d.inCluster(from) != 0 || d.inCluster(to) != 1 {
		t.Errorf("%d in %s, %d in %s", d.inCluster(from), from, d.inCluster(to), to)
	}
	for i, n := range d.atEndpoints() {
		if n != 0 {
			t.Errorf("%d at endpoint %d", n, i)
		}
	}
	if moves, strays := d.Counter(stats.Moves), d.Counter(stats.Misrouted); moves != 1 || strays != 1 {
		t.Errorf("%d moves, %d strays", moves, strays)
	}
	c.Finish()
	// a retry in the same cluster moves the inner one
	c = d.client(0, prompted(1))
	other := d.sites[c.target()][0]
	if other == c.Upstream() {
		other = d.sites[c.target()][1]
	}
	c.moveTo(other)
	c.Head(200)
	if d.atEndpoints()[other] != 1 || d.inCluster(c.target()) != 1 {
		t.Errorf("%v", d.atEndpoints())
	}
	c.Finish()
	d.emptiedInside()
}

// While every endpoint of the chosen cluster is full, the request is refused or waits, and both leases end with it.
func TestFullInsideCluster(t *testing.T) {
	d := startSites(t, 1, nestedConfig("", "global_least_request", `,"max_inflight":1`))
	var open []*fakeStream
	for i := range 6 {
		open = append(open, d.client(0, prompted(i)))
	}
	c := d.client(0, prompted(6))
	if c.Result().Status != 429 || !c.Ended {
		t.Errorf("the seventh: %+v", c.Result())
	}
	for _, c := range open {
		c.Finish()
	}
	d.emptiedInside()

	d = startSites(t, 1, nestedConfig("", "global_least_request", `,"max_inflight":1,"queue":{"max_wait":"5s"}`))
	open = nil
	for i := range 6 {
		open = append(open, d.client(0, prompted(i)))
	}
	waits, leaves := d.client(0, prompted(6)), d.client(0, prompted(7))
	if !waits.Held() || !leaves.Held() {
		t.Fatalf("held %v %v", waits.Held(), leaves.Held())
	}
	leaves.ResetByClient()
	for _, c := range open {
		c.Finish()
	}
	d.advance(200 * time.Millisecond)
	if waits.Held() || waits.Upstream() < 0 {
		t.Errorf("still held: %v", waits.Held())
	}
	waits.Finish()
	d.advance(time.Second)
	d.emptiedInside()
}

// A request that waits for its cluster keeps nothing of its body in the VM but what the choice inside needs, which is
// the same as without a wait.
func TestBodiesOfWhoWaitsForACluster(t *testing.T) {
	const waiting, size = 40, 200 << 10
	d := startSites(t, 1, nestedConfig(`"max_inflight":1,"queue":{"max_wait":"10s"}`, "prefix_cache", ""))
	r := streamtest.Request{Frames: []string{`{"model":"m","prompt":"` + strings.Repeat("a b ", size/4) + `"}`}}
	open := []*fakeStream{d.client(0, r), d.client(0, r), d.client(0, r)} // one in each cluster
	blocks := open[0].core.first.inside.Prompt.Chain.Blocks
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before, waits := heap(), make([]*fakeStream, waiting)
	for i := range waits {
		if waits[i] = d.client(0, r); !waits[i].Held() {
			t.Fatalf("request %d went to %d", i, waits[i].Upstream())
		}
	}
	each := (heap()-before)/waiting - int64(len(r.Frames[0])) // which the gateway holds
	if each > 32<<10 {
		t.Errorf("%d bytes are kept for each request of %d bytes", each, size)
	}
	for open = append(open, waits...); len(open) > 0; d.advance(50 * time.Millisecond) {
		i := slices.IndexFunc(open, func(c *fakeStream) bool { return !c.Held() })
		if i < 0 {
			t.Fatalf("%d wait, and none is served", len(open))
		}
		c := open[i]
		open = slices.Delete(open, i, i+1)
		in := c.core.first.inside
		if len(blocks) == 0 || in == nil || !slices.Equal(in.Prompt.Chain.Blocks, blocks) {
			t.Error("the prompt is not the one of a request that has not waited")
		}
		if c.Finish(); c.Received().Body != r.Frames[0] {
			t.Errorf("%d bytes were received", len(c.Received().Body))
		}
	}
	if n := d.metrics.decisions()["chosen"]; n != 2*(3+waiting) {
		t.Errorf("%v", d.metrics.decisions())
	}
	d.emptiedInside()
}

// With counts in Redis, each of the two choices waits for its answer, in front of a body and behind it.
func TestEndpointInClusterWithRedis(t *testing.T) {
	server := redisserver.StartT(t, redisserver.Options{})
	for _, inside := range []string{"", `,"unit":"tokens"`} {
		d := &fakeDriver{fakeProcess: newFakeProcess(t, 2)}
		d.attachRedis(t, server).latency = time.Millisecond
		d.useSites()
		if !d.configure(nestedConfig(`"serviceFQDN":"redis.static"`, "global_least_request", inside)) {
			t.Fatal("refused")
		}
		var open []*fakeStream
		for i := range 30 {
			c := d.client(i%2, prompted(i))
			d.advance(20 * time.Millisecond)
			if c.Upstream() < 0 || !strings.Contains(c.note, " host="+d.endpoints[c.Upstream()].Addr+" reason=chosen") {
				t.Fatalf("%q: held %v, at %d: %q", inside, c.Held(), c.Upstream(), c.note)
			}
			if c.Received().Body != c.request.Frames[0]+c.request.Frames[1] {
				t.Errorf("%q: received %q", inside, c.Received().Body)
			}
			open = append(open, c)
		}
		gone := d.client(0, prompted(1))
		gone.ResetByClient()
		for _, c := range open {
			c.Finish()
		}
		d.advance(2 * time.Second)
		d.emptiedInside()
	}
}

// While Redis decides about a request, the memory for bodies is used for others: the choice inside reads its own.
func TestBodiesWhileRedisDecides(t *testing.T) {
	server := redisserver.StartT(t, redisserver.Options{})
	d := &fakeDriver{fakeProcess: newFakeProcess(t, 1)}
	d.attachRedis(t, server).latency = time.Millisecond
	d.useSites()
	if !d.configure(nestedConfig(`"serviceFQDN":"redis.static"`, "prefix_cache", `,"unit":"tokens"`)) {
		t.Fatal("refused")
	}
	long := func(text string) streamtest.Request {
		return streamtest.Request{Frames: []string{`{"model":"m","prompt":"` + strings.Repeat(text, 1000) + `"}`}}
	}
	blocks := func(c *fakeStream) []prompt.Block {
		if c.core.first.inside == nil || !c.core.first.inside.Prompt.Chain.HasBlocks() {
			t.Fatalf("held %v, at %d: %q", c.Held(), c.Upstream(), c.note)
		}
		return c.core.first.inside.Prompt.Chain.Blocks
	}
	alone := d.client(0, long("one "))
	d.advance(20 * time.Millisecond)
	open := func(text string) *fakeStream { return d.workers[0].open(long(text).Filled()) }
	first, second := open("one "), open("two ")
	if !first.Held() || !second.Held() {
		t.Fatal("Redis has decided already")
	}
	d.advance(20 * time.Millisecond)
	if !slices.Equal(blocks(first), blocks(alone)) || slices.Equal(blocks(second), blocks(alone)) {
		t.Error("the prompt is that of another request")
	}
	for _, c := range []*fakeStream{alone, first, second} {
		c.Finish()
	}
	d.advance(2 * time.Second)
	d.emptiedInside()
}

// What an endpoint does inside a cluster counts for both: a cluster of which one endpoint fails loses that one, and
// keeps requests for the other.
func TestFailingEndpointInCluster(t *testing.T) {
	d := startSites(t, 1, nestedConfig("", "global_least_request", ""))
	at := make([]int, len(d.endpoints))
	var open []*fakeStream
	for i := range 600 {
		c := d.client(0, streamtest.Request{Client: fmt.Sprintf("10.1.0.%d", i%200)})
		at[c.Upstream()]++
		if c.Upstream() == 0 {
			c.Head(500)
			c.Finish()
		} else {
			open = append(open, c)
		}
		d.advance(10 * time.Millisecond)
		if len(open) > 20 {
			open[0].Finish()
			open = open[1:]
		}
	}
	for _, c := range open {
		c.Finish()
	}
	if at[0] > 30 || at[1] < 60 || at[6] > 0 {
		t.Errorf("requests by endpoint: %v", at)
	}
	d.emptiedInside()
}

// A panic in any call on the way leaves nothing behind, and the request is served.
func TestPanicsInsideClusters(t *testing.T) {
	start := func() *fakeDriver { return startSites(t, 1, nestedConfig("", "prefix_cache", "")) }
	for _, call := range []string{
		"SetCluster", "KnownView", "View", "Steer", "Unsteer", "SetNote", "Random", "RequestBody",
	} {
		panicIn(t, call, start, prompted, (*fakeDriver).emptiedInside)
	}
}

// In shadow mode neither choice is made by the plugin.
func TestShadowAmongClusters(t *testing.T) {
	d := startSites(t, 1, nestedConfig(`"shadow":true`, "global_least_request", ""))
	c := d.client(0, prompted(0))
	if c.target() != fakeCluster || c.Override != "" {
		t.Errorf("steered to %q in %s", c.Override, c.target())
	}
	c.Finish()
	if n := d.metrics.decisions()[lb.ReasonShadow.String()]; n != 1 {
		t.Errorf("%d decisions in shadow mode", n)
	}
	d.emptiedInside()
}
