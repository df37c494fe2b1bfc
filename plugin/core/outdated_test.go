package core

import (
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/plugin/stats"
)

// fromZero has requests wait while a cluster has no endpoint.
func fromZero(config string) string {
	return strings.Replace(config, `"max_wait":"10s"`, `"max_wait":"10s","from_zero":true`, 1)
}

// lose has a cluster have no endpoint any more, which its view does not show yet, and a request find that out: it is
// lost.
func (d *fakeDriver) lose(cluster string) {
	d.t.Helper()
	d.outdated = map[string]bool{cluster: true}
	if c := d.client(0, regionChat); c.Result().Status != 503 || c.target() != cluster {
		d.t.Fatalf("the one that finds out that %s is empty, at %q: %+v", cluster, c.target(), c.Result())
	}
}

// find gives a cluster other endpoints than it had.
func (d *fakeDriver) find(cluster string) {
	d.outdated = nil
	for _, i := range d.sites[cluster] {
		d.endpoints[i].Weight = 2
	}
}

// What waits for a full endpoint is not granted it once the gateway has none for another request: one is lost, and the
// rest go on waiting.
func TestOutdatedWhenGranted(t *testing.T) {
	for _, redis := range []bool{false, true} {
		d, config := &fakeDriver{fakeProcess: newFakeProcess(t, 1)}, queueConfig(`"from_zero":true`)
		d.SetEndpoints(make([]streamtest.Endpoint, 1))
		if redis {
			config = withRedis(t, d, config)
		}
		if !d.configure(config) {
			t.Fatal("refused")
		}
		d.advance(time.Second)
		full := d.client(0, streamtest.Request{})
		var waits []*fakeStream
		for range 3 {
			d.advance(100 * time.Millisecond)
			waits = append(waits, d.client(0, streamtest.Request{}))
		}
		d.wantWaiting(waits...)
		d.endpoints = nil // and the plugin does not know it yet
		full.Finish()
		d.advance(time.Second)
		if waits[0].Result().Status != 503 {
			t.Errorf("Redis %v: the first: %+v", redis, waits[0].Result())
		}
		d.wantWaiting(waits[1:]...)
		d.SetEndpoints(make([]streamtest.Endpoint, 1))
		for _, c := range waits[1:] {
			if d.advance(time.Second); c.Upstream() != 0 {
				t.Errorf("Redis %v: with an endpoint: %+v", redis, c.Result())
			}
			c.Finish()
		}
		d.drained()
		d.wantNoneWaits()
	}
}

// Where the list of a region's own servers is outdated, requests go to another region that has room, and that is told
// that there is none here.
func TestOutdatedAtHome(t *testing.T) {
	us, eu := newRegions(t, 1, 1, "", func(_ *fakeDriver, config string) string { return fromZero(config) })
	us.wantSaid("before", us.ask(0, 1), 1)
	us.lose("llm")
	us.wantSaid("outdated", us.ask(0, 2), 0)
	away := us.client(0, regionChat)
	if away.cluster != "to-eu" {
		t.Fatalf("sent to %q, held %v: %+v", away.cluster, away.Held(), away.Result())
	}
	there := eu.client(0, hopOf(away))
	pass(200*time.Millisecond, us, eu)
	waits := us.client(0, regionChat)
	us.wantWaiting(waits)
	us.find("llm")
	us.wantSaid("with another list", us.ask(0, 3), 1)
	pass(500*time.Millisecond, us, eu)
	waits.wantAt(false)
	for _, c := range []*fakeStream{waits, there, away} {
		c.Finish()
	}
	pass(time.Second, us, eu)
	us.drained()
	us.wantNoneWaits()
}

// Where the list of adopted servers is outdated, no request tries to go there, and so none stays away for having come
// back too often: those that wait go there once there are servers again.
func TestOutdatedAdopted(t *testing.T) {
	for _, unseen := range []bool{false, true} { // as Higress's lists are, but to requests that are routed there
		us, _ := newRegions(t, 1, 1, "", func(d *fakeDriver, config string) string {
			return adopting(1)(d, fromZero(config))
		})
		us.unseen, us.peers = unseen, nil
		us.advance(4 * time.Second)
		us.wantAdopted(1)
		home := us.client(0, regionChat)
		home.wantAt(false)
		us.lose(euServers)
		sent := us.sentToAdopted()
		waits := us.client(0, regionChat)
		us.advance(1500 * time.Millisecond)
		us.wantWaiting(waits)
		if n := us.sentToAdopted() - sent; n != 0 {
			t.Errorf("unseen %v: sent there %d times, where nothing is", unseen, n)
		}
		us.find(euServers)
		us.advance(500 * time.Millisecond)
		waits.wantAt(true)
		waits.Finish()
		home.Finish()
		us.advance(time.Second)
		us.emptiedInside()
		us.wantNoneWaits()
	}
}

// sentToAdopted returns how many requests were sent to adopted servers.
func (d *fakeDriver) sentToAdopted() (n uint64) {
	for name := range d.metrics.values {
		if strings.HasPrefix(name, stats.AtAdopted+";region=eu") {
			n += d.Counter(name)
		}
	}
	return n
}
