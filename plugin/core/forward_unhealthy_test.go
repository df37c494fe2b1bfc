package core

import (
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// Requests for which nothing at home is healthy wait for another region that has no room, as those do that find nothing
// open: in their order, for what comes first, room there or a healthy server here.
func TestWaitsWithoutHealthy(t *testing.T) {
	for _, redis := range []bool{false, true} {
		us, eu := newRegions(t, 1, 1, `,"queue_buffer":0`, func(d *fakeDriver, config string) string {
			if redis {
				return withRedis(t, d, config)
			}
			return config
		})
		pass(time.Second, us, eu)
		busy := eu.client(0, regionChat)
		us.endpoints[0].State = lb.Unhealthy
		pass(time.Second, us, eu)
		var waits []*fakeStream
		for i := range 3 {
			waits = append(waits, us.client(i%2, regionChat))
			pass(20*time.Millisecond, us, eu)
		}
		pass(2*time.Second, us, eu)
		us.wantWaiting(waits...)
		busy.Finish()
		for range 200 {
			if pass(5*time.Millisecond, us, eu); waits[0].cluster == "to-eu" {
				break
			}
		}
		if waits[0].cluster != "to-eu" {
			t.Fatalf("Redis %v: with room there the first is sent to %q", redis, waits[0].cluster)
		}
		there := eu.client(0, hopOf(waits[0]))
		pass(500*time.Millisecond, us, eu)
		rest := waits[1:]
		if redis && rest[0].cluster == "to-eu" { // it has answered a probe before it has counted the first
			rest[0].Finish()
			rest = rest[1:]
		}
		us.wantWaiting(rest...)
		us.endpoints[0].State = lb.Healthy
		pass(500*time.Millisecond, us, eu)
		us.wantWaiting(rest[1:]...)
		for _, c := range rest {
			if pass(time.Second, us, eu); c.cluster != "llm" || c.Upstream() != 0 {
				t.Fatalf("Redis %v: the next one is sent to %q", redis, c.cluster)
			}
			c.Finish()
		}
		there.Finish()
		waits[0].Finish()
		pass(time.Second, us, eu)
		if got := us.metrics.decisions(); got["forwarded"] != uint64(3-len(rest)) || got["no_healthy_endpoint"] != 0 {
			t.Errorf("Redis %v: counted as %v", redis, got)
		}
		us.drained()
		us.wantNoneWaits()
	}
}

// Those that wait so in vain are left to the gateway, as they are at once where none may wait: in a full queue, or
// where no other region may have the request or answers. One that waits goes on when the other region falls silent.
func TestWaitsInVainWithoutHealthy(t *testing.T) {
	const short = `"max_wait":"2s","max_length":1`
	for members, waits := range map[string]bool{`,"queue_buffer":0`: true, `,"allowed":[]`: false} {
		us, eu := newRegions(t, 1, 1, members, func(_ *fakeDriver, config string) string {
			return strings.Replace(config, `"max_wait":"10s"`, short, 1)
		})
		busy := eu.client(0, regionChat)
		us.endpoints[0].State = lb.Unhealthy
		pass(time.Second, us, eu)
		first := us.client(0, regionChat)
		if waits {
			us.wantWaiting(first)
		}
		next := us.client(1, regionChat)
		if next.Result().Status != 503 {
			t.Errorf("%s: in a full queue: %+v", members, next.Result())
		}
		us.peers = nil
		pass(1500*time.Millisecond, us, eu)
		if waits {
			us.wantWaiting(first)
		}
		pass(time.Second, us, eu)
		if first.Result().Status != 503 {
			t.Errorf("%s: after its wait: %+v", members, first.Result())
		}
		if got := us.metrics.decisions(); got["no_healthy_endpoint"] != 2 {
			t.Errorf("%s: counted as %v", members, got)
		}
		busy.Finish()
		us.drained()
		us.wantNoneWaits()
	}
}
