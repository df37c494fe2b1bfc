package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
)

func withRedis(t *testing.T, d *fakeDriver, config string) string {
	d.attachRedis(t, redisserver.StartT(t, redisserver.Options{})).latency = time.Millisecond
	return strings.Replace(config, `"max_inflight"`,
		`"serviceFQDN":"redis.static","password":"my secret","reserve_timeout":"100ms","max_inflight"`, 1)
}

// startAdoptingWithRedis does as startAdopting where requests are counted in Redis. A VM that has had requests asks the
// peers.
func startAdoptingWithRedis(t *testing.T, servers int) (us *fakeDriver) {
	t.Helper()
	change := adopting(servers)
	us, _ = newRegions(t, 1, 1, "", func(d *fakeDriver, config string) string {
		return change(d, withRedis(t, d, config))
	})
	us.client(0, regionChat).Finish()
	us.peers = nil
	us.advance(4 * time.Second)
	us.wantAdopted(1)
	return us
}

// Adopted servers are counted in Redis where this region's own are.
func TestServesAdoptedWithRedis(t *testing.T) {
	us := startAdoptingWithRedis(t, 2)
	home := us.client(0, regionChat)
	us.advance(50 * time.Millisecond)
	var open []*fakeStream
	for i := range 2 {
		c := us.client(i, regionChat)
		us.advance(50 * time.Millisecond)
		c.wantAt(true)
		open = append(open, c)
	}
	if open[0].Upstream() == open[1].Upstream() {
		t.Error("both are at one server")
	}
	waits := us.client(0, regionChat)
	us.advance(time.Second)
	us.wantWaiting(waits)
	open[0].Finish()
	us.advance(4 * time.Second)
	waits.wantAt(true)
	for _, c := range []*fakeStream{waits, open[1], home} {
		c.Finish()
	}
	us.advance(time.Second)
	us.emptiedInside()
}

// Where requests are counted in Redis, no VM without requests asks the peers: the main thread's cannot look at adopted
// servers there.
func TestMainThreadDoesNotLookAtAdoptedInRedis(t *testing.T) {
	for _, redis := range []bool{true, false} {
		change := adopting(1)
		us, eu := newRegions(t, 1, 1, "", func(d *fakeDriver, config string) string {
			if redis {
				config = withRedis(t, d, config)
			}
			return change(d, config)
		})
		us.client(0, regionChat).Finish()
		pass(2*time.Second, us, eu)
		clear(us.asking)
		pass(time.Second, us, eu)
		if redis && us.asking[us.main.vm] {
			t.Error("the main thread asks")
		}
		if n := len(us.asking); n != 1 {
			t.Errorf("%d VMs ask", n)
		}
	}
}

// byMetrics returns a configuration in which metrics decide, in a gateway that shows them to requests only, as Higress
// does.
func byMetrics(d *fakeDriver, config string) string {
	d.stored = true
	return strings.Replace(config, "prefix_cache", "endpoint_metrics", 1)
}

// writePages has all servers show metrics that they have not shown before.
func (d *fakeDriver) writePages() {
	d.pages = map[string]string{}
	for i := range d.endpoints {
		d.pages[d.Addr(i)] = fmt.Sprintf("# page at %d\n", d.now) + vllmPage(0)
	}
}

// Where metrics decide and are shown to requests only, a region that was idle for long has the room that it has.
func TestIdleRegionHasRoomByMetrics(t *testing.T) {
	us, _ := newRegions(t, 2, 1, "", byMetrics)
	us.peers = nil
	for i := range uint64(4) {
		us.advance(time.Minute)
		us.writePages()
		us.wantSaid(fmt.Sprintf("idle, probe %d", i), us.ask(int(i%2), i+1), 2)
	}
	us.advance(time.Minute)
	us.pages = map[string]string{}
	us.wantSaid("no server has metrics", us.ask(0, 9), 0)
}

// There adopted servers are used, whose metrics no request has read before.
func TestServesAdoptedByMetrics(t *testing.T) {
	change := adopting(2)
	us, _ := newRegions(t, 1, 1, "", func(d *fakeDriver, config string) string {
		return change(d, byMetrics(d, config))
	})
	us.unseen, us.peers = true, nil
	us.advance(4 * time.Second)
	us.wantAdopted(1)
	us.writePages()
	home := us.client(0, regionChat)
	home.wantAt(false)
	for i := range 4 {
		us.advance(20 * time.Second)
		us.writePages()
		away := us.client(i%2, regionChat)
		us.advance(time.Second)
		away.wantAt(true)
		away.Finish()
	}
	home.Finish()
	us.drained()
}
