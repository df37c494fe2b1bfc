package core

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/plugin/discovery"
	"github.com/warmgate/warmgate/plugin/process"
)

// look has the gateway's circuit breakers looked at: limits by cluster, and requests in flight of others.
func (d *fakeDriver) look(limits, others map[string]int64) {
	d.breakers = map[string]discovery.Breaker{}
	for name, limit := range limits {
		d.breakers[name] = discovery.Breaker{MaxRequests: limit, Active: d.inCluster(name) + others[name]}
	}
	d.looks++
}

// serveEach has each worker serve a request, so that it knows of the clusters.
func (d *fakeDriver) serveEach() {
	for i := range d.workers {
		d.client(i, streamtest.Request{}).Finish()
	}
}

// breakerConfigs are configurations of every kind that chooses among clusters.
var breakerConfigs = []string{
	amongConfig("cluster_metrics", leastBusy),
	amongConfig("cluster_metrics", `"mode":"AdaptiveScore","health":{"slow_start":0}`),
	amongConfig("cluster_metrics", `"mode":"LeastFirstTokenLatency","rate_limit":0.5,"health":{"slow_start":0}`),
	amongConfig("global_least_request", ""),
	amongConfig("prefix_cache", ""),
	amongConfig("consistent_hash", ""),
}

// A burst fills each cluster to its limit; the others go where there is room, and what is left to the route's own
// cluster, under its reason. A cluster is used again as soon as a request has left it.
func TestBreakers(t *testing.T) {
	for name, c := range map[string]struct {
		limits, others map[string]int64
		want           [4]int64 // in a, b, c and the route's own, of 40
	}{
		"one is small":       {map[string]int64{"a": 4}, nil, [4]int64{4, 18, 18, 0}},
		"two are":            {map[string]int64{"a": 4, "c": 1}, nil, [4]int64{4, 35, 1, 0}},
		"all are":            {map[string]int64{"a": 4, "b": 9, "c": 2}, nil, [4]int64{4, 9, 2, 25}},
		"one takes none":     {map[string]int64{"a": 0}, nil, [4]int64{0, 20, 20, 0}},
		"others are in one":  {map[string]int64{"a": 4}, map[string]int64{"a": 3}, [4]int64{1, -1, -1, 0}},
		"others have filled": {map[string]int64{"a": 4}, map[string]int64{"a": 5}, [4]int64{0, 20, 20, 0}},
		"none is near":       {map[string]int64{"a": 1024, "b": 1024, "c": 1024}, nil, [4]int64{-1, -1, -1, 0}},
	} {
		d := startSites(t, 3, breakerConfigs[0])
		d.look(c.limits, c.others)
		d.serveEach()
		d.look(c.limits, c.others)
		d.advance(process.TickPeriod)
		var open []*fakeStream
		in := map[string]int64{}
		for i := range 40 {
			open = append(open, d.client(i%3, streamtest.Request{}))
			in[open[i].target()]++
		}
		for i, cluster := range []string{"a", "b", "c", fakeCluster} {
			if n := in[cluster]; c.want[i] >= 0 && n != c.want[i] {
				t.Errorf("%s: %d in %q, want %d", name, n, cluster, c.want[i])
			}
		}
		if n := d.metrics.decisions()["no_cluster_available"]; int64(n) != in[fakeCluster] {
			t.Errorf("%s: %d counted, %d went to the route's own", name, n, in[fakeCluster])
		}
		for _, s := range open {
			if s.target() != "a" || c.want[3] == 0 {
				continue
			}
			s.Finish()
			if again := d.client(1, streamtest.Request{}); again.target() != "a" {
				t.Errorf("%s: a request has left a, and another went to %s", name, again.target())
			} else {
				again.Finish()
			}
			break
		}
		for _, s := range open {
			s.conclude()
		}
		d.emptied()
	}
}

// Whatever comes and goes, of this route and of others: a cluster whose breaker is open is not chosen, the route's own
// cluster serves if and only if all are, and one that closes is used again with the next look at the gateway.
func TestBreakersHold(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		config := rapid.SampledFrom(breakerConfigs).Draw(rt, "config")
		d := startSites(t, 2, config)
		names := []string{"a", "b", "c"}
		limits, others := map[string]int64{}, map[string]int64{}
		for _, name := range names {
			if n := rapid.IntRange(-1, 6).Draw(rt, "limit"); n >= 0 {
				limits[name] = int64(n)
			}
		}
		var open []*fakeStream
		d.serveEach()
		d.look(limits, others)
		d.advance(process.TickPeriod)
		room := func(name string) bool {
			limit, limited := limits[name]
			return !limited || d.inCluster(name) < limit-others[name]
		}
		rt.Repeat(map[string]func(*rapid.T){
			"request": func(rt *rapid.T) {
				free := map[string]bool{}
				for _, name := range names {
					free[name] = room(name)
				}
				r := streamtest.Request{Frames: []string{fmt.Sprintf(`{"prompt":"%d"}`, len(open)%5)}}
				c := d.client(rapid.IntRange(0, 1).Draw(rt, "worker"), r)
				open = append(open, c)
				to := c.target()
				free[fakeCluster] = !free["a"] && !free["b"] && !free["c"]
				if !free[to] {
					rt.Fatalf("to %s, %v have room", to, free)
				}
			},
			"end": func(rt *rapid.T) {
				if len(open) == 0 {
					return
				}
				i := rapid.IntRange(0, len(open)-1).Draw(rt, "which")
				open[i].Finish()
				open = append(open[:i], open[i+1:]...)
			},
			"others": func(rt *rapid.T) {
				d.advance(process.TickPeriod) // what has just ended may have been seen by the look
				others[rapid.SampledFrom(names).Draw(rt, "where")] = int64(rapid.IntRange(0, 7).Draw(rt, "others"))
				d.look(limits, others)
				d.advance(process.TickPeriod)
			},
		})
		for _, c := range open {
			c.Finish()
		}
		d.emptied()
	})
}

// With Redis, counts are those of all gateways, and a breaker is one gateway's. Requests that come at once are planned
// before any is counted.
func TestBreakersWithRedis(t *testing.T) {
	config := amongConfig("cluster_metrics", leastBusy+
		`,"serviceFQDN":"redis.static","password":"my secret","reserve_timeout":"1s"`)
	redis := redisserver.StartT(t, redisserver.Options{})
	other, d := &fakeDriver{fakeProcess: newFakeProcess(t, 1)}, &fakeDriver{fakeProcess: newFakeProcess(t, 0)}
	d.rand = rand.New(rand.NewPCG(3, 4)) // owners differ
	for range 3 {
		d.workers = append(d.workers, d.newWorker())
	}
	for _, gateway := range []*fakeDriver{other, d} {
		gateway.useSites()
		gateway.attachRedis(t, redis).latency = time.Millisecond
	}
	if !other.configure(config) || !d.configure(config) {
		t.Fatal("refused")
	}
	for range 15 {
		other.client(0, streamtest.Request{})
	}
	d.serveEach()
	for _, limits := range []map[string]int64{{"a": 4}, {"a": 4, "b": 3, "c": 2}} {
		d.look(limits, nil)
		d.advance(process.TickPeriod)
		d.redis.manual = true
		var open []*fakeStream
		for i := range 40 {
			open = append(open, d.client(i%3, streamtest.Request{}))
		}
		d.redis.manual = false
		d.advance(200 * time.Millisecond)
		in := map[string]int64{}
		for _, c := range open {
			in[c.target()]++
		}
		for name, limit := range limits {
			if in[name] > limit || in[name] < limit-1 || d.inCluster(name) != in[name] {
				t.Errorf("%v: %v, %d counted in %s", limits, in, d.inCluster(name), name)
			}
		}
		if in[fakeCluster] > 0 != (len(limits) == 3) {
			t.Errorf("%v: %v", limits, in)
		}
		for _, c := range open {
			c.Finish()
		}
		d.advance(time.Second)
		d.emptied()
	}
}

// Requests that a look at the gateway has seen and that end before it is known are no others. What is not known any
// more limits nothing.
func TestBreakersOfOwnRequests(t *testing.T) {
	d := startSites(t, 1, amongConfig("cluster_metrics", leastBusy))
	limits := map[string]int64{"a": 3, "b": 0, "c": 0}
	d.look(limits, nil)
	d.advance(process.TickPeriod)
	for range 5 {
		var open []*fakeStream
		for range 3 {
			open = append(open, d.client(0, streamtest.Request{}))
		}
		d.advance(process.TickPeriod)
		d.look(limits, nil)
		for _, c := range open {
			c.Finish()
		}
		d.advance(process.TickPeriod)
		c := d.client(0, streamtest.Request{})
		if c.target() != "a" {
			t.Fatalf("to %s", c.target())
		}
		c.Finish()
	}
	d.breakers = nil
	d.advance(process.TickPeriod)
	for range 30 {
		d.client(0, streamtest.Request{})
	}
	for _, name := range []string{"a", "b", "c"} {
		if n := d.inCluster(name); n != 10 {
			t.Errorf("without circuit breakers %d requests in %s, want 10", n, name)
		}
	}
}

// Requests that wait inside a cluster are not among those that its circuit breaker counts: what it counts are others.
func TestBreakersOfClustersWithAQueue(t *testing.T) {
	d := startSites(t, 2, nestedConfig("", "global_least_request", `,"max_inflight":1,"queue":{"max_wait":"60s"}`))
	d.look(map[string]int64{"a": 10, "b": 0, "c": 0}, nil)
	d.advance(process.TickPeriod)
	var open []*fakeStream
	for i := range 8 {
		open = append(open, d.client(i%2, streamtest.Request{}))
	}
	if n := d.atEndpoints()[d.sites["a"][0]] + d.atEndpoints()[d.sites["a"][1]]; n != 2 || d.inCluster("a") != 8 {
		t.Fatalf("%d of %d requests are at servers", n, d.inCluster("a"))
	}
	d.advance(process.TickPeriod)
	a := d.breakers["a"]
	a.Active = 2 + 6 // two of these, and six of another route
	d.breakers["a"] = a
	d.looks++
	d.advance(process.TickPeriod)
	for range 2 {
		c := d.client(0, streamtest.Request{})
		if open = append(open, c); c.target() != fakeCluster {
			t.Errorf("one more is sent to %q, where 14 are for 10", c.target())
		}
	}
	for _, c := range open {
		c.conclude()
	}
	d.emptiedInside()
}
