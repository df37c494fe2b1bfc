package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/stats"
)

// comeHome returns a change to a configuration in which forwarded requests come home when the other region fails.
func comeHome(config string) string {
	return strings.NewReplacer(`"cluster":"to-eu"`, `"cluster":"to-eu","forward_cluster":"eu-or-home"`,
		`"cluster":"to-us"`, `"cluster":"to-us","forward_cluster":"us-or-home"`).Replace(config)
}

// startReturning returns two regions of which us has so many endpoints.
func startReturning(t *testing.T, endpoints int, change func(d *fakeDriver, config string) string) (
	us, eu *fakeDriver,
) {
	t.Helper()
	return newRegions(t, endpoints, 1, `,"queue_buffer":9`, func(d *fakeDriver, config string) string {
		d.sites["eu-or-home"], d.sites["us-or-home"] = []int{len(d.endpoints) - 1}, []int{len(d.endpoints) - 1}
		if change != nil {
			config = change(d, config)
		}
		return comeHome(config)
	})
}

// A forwarded request that a retry has served at home counts there, for as long as that lasts; the other region has not
// got its prompt.
func TestServedAtHomeAfterForwarding(t *testing.T) {
	us, eu := startReturning(t, 2, nil)
	here := []*fakeStream{us.client(0, regionChat), us.client(0, regionChat)}
	long := regionChat
	for i := range 2 {
		long.Frames = []string{`{"prompt":"` + strings.Repeat("a long conversation "[i:], 200) + `"}`}
		away := us.client(1, long)
		if away.cluster != "eu-or-home" {
			t.Fatalf("sent to %q: %v", away.cluster, us.access)
		}
		away.moveTo(i)
		away.Head(200)
		if n := us.atEndpoints()[i]; n != 2 {
			t.Errorf("%d requests are counted at the endpoint that serves it", n)
		}
		away.Finish()
		if got := us.atEndpoints(); got[0] != 1 || got[1] != 1 {
			t.Errorf("afterwards %v", got)
		}
		h := away.Result().Headers
		if h["x-warmgate-host"] != us.Addr(i) || h["x-warmgate-region"] != "" || h["x-warmgate-reason"] != "forwarded" {
			t.Errorf("headers %v", h)
		}
		want := "host=" + us.Addr(i) + " reason=forwarded load=2 region=eu why=time returned=yes"
		if log := us.access[len(us.access)-1]; !strings.HasPrefix(log, want) {
			t.Errorf("access log %q, want %q", log, want)
		}
		prompt := &away.core.first.Lease.Reservation.Plan.Prefix
		home := us.workers[0].vm.Regions.Of(away.core.first.Config)
		if there := home.Matched(us.now, prompt); !prompt.NeedsLookup() || there[0] != 0 {
			t.Errorf("the other region is believed to have %d blocks of the prompt", there)
		}
		pass(time.Second, us, eu)
	}
	if n := us.Counter(stats.CameHome + ";region=eu"); n != 2 {
		t.Errorf("%d came home", n)
	}
	for _, c := range here {
		c.Finish()
	}
	// The prompt is at home, by what was recorded of the retry.
	again := us.client(0, long)
	if again.Finish(); again.Result().Headers["x-warmgate-match"] != "1.00" {
		t.Errorf("headers %v", again.Result().Headers)
	}
	us.drained()
	us.emptiedInside()
}

// A server is found by its address though its ranks are told apart, and no other region gets the rank that a client has
// asked for.
func TestRanksServedAtHomeAfterForwarding(t *testing.T) {
	us, eu := startReturning(t, 1, func(_ *fakeDriver, config string) string {
		return strings.Replace(config, `"max_inflight":1`, `"max_inflight":1,"ranks":{"enabled":true,"count":2}`, 1)
	})
	here := []*fakeStream{us.client(0, regionChat), us.client(0, regionChat)}
	pass(time.Second, us, eu)
	r := regionChat
	r.Headers = [][2]string{{rankHeader, "7"}}
	away := us.client(1, r)
	if away.cluster != "eu-or-home" || away.header(rankHeader) != "" {
		t.Fatalf("sent to %q with rank %q", away.cluster, away.header(rankHeader))
	}
	away.moveTo(0)
	away.Finish()
	if n := us.Counter(stats.CameHome + ";region=eu"); n != 1 {
		t.Errorf("%d came home", n)
	}
	for _, c := range here {
		c.Finish()
	}
	us.emptiedInside()
}

// What the other region answers itself is counted nowhere here. It has got the prompt if it has not failed it.
func TestServedThereAfterForwarding(t *testing.T) {
	us, eu := startReturning(t, 1, nil)
	home := us.client(0, regionChat)
	long := regionChat
	long.Frames = []string{`{"prompt":"` + strings.Repeat("a long conversation ", 200) + `"}`}
	by := func(status int, why string) {
		t.Helper()
		const stat = stats.Forwarded + ";region=eu;reason="
		before := us.metrics.values[stat+why]
		away := us.client(1, long)
		away.Head(status)
		away.Finish()
		if n := us.metrics.values[stat+why] - before; n != 1 {
			t.Errorf("forwarded by %s: %d", why, n)
		}
		pass(time.Second, us, eu)
	}
	by(500, "time")
	by(200, "time") // it has not got the prompt of the one that it has failed
	by(400, "prefix")
	by(429, "prefix")
	by(200, "prefix") // what it had before it failed stays
	away := us.client(1, long)
	away.moveTo(0)
	away.Finish()
	pass(time.Second, us, eu)
	by(200, "prefix")
	home.Finish()
	us.emptiedInside()
}

// However a request that has come home ends, in whichever store, nothing remains of it; nor of one that had no plan.
func TestEndsAtHomeAfterForwarding(t *testing.T) {
	for _, redis := range []bool{false, true} {
		for _, healthy := range []bool{true, false} {
			for _, policy := range []string{"prefix_cache", "global_least_request"} {
				t.Run(fmt.Sprintf("%v/%v/%s", redis, healthy, policy), func(t *testing.T) {
					endsAtHome(t, redis, healthy, policy)
				})
			}
		}
	}
}

func endsAtHome(t *testing.T, redis, healthy bool, policy string) {
	us, eu := startReturning(t, 1, func(d *fakeDriver, config string) string {
		if redis && strings.Contains(config, `"name":"us","cluster"`) {
			config = withRedis(t, d, config)
		}
		return strings.Replace(config, "prefix_cache", policy, 1)
	})
	pass(2*time.Second, us, eu)
	var busy *fakeStream
	if healthy {
		busy = us.client(0, regionChat)
		us.advance(50 * time.Millisecond)
	} else {
		us.endpoints[0].State = lb.Unhealthy
		us.advance(200 * time.Millisecond)
	}
	for i, end := range []func(c *fakeStream){
		func(c *fakeStream) { c.Finish() },
		func(c *fakeStream) { c.ResetByClient() },
		func(c *fakeStream) { us.advance(20 * time.Millisecond); c.Finish() },
		func(c *fakeStream) { c.ResetByUpstream() },
	} {
		c := us.client(i%2, regionChat)
		us.advance(200 * time.Millisecond) // with Redis it waits at first
		if c.cluster != "eu-or-home" {
			t.Fatalf("sent to %q, held %v: %+v", c.cluster, c.Held(), c.Result())
		}
		c.moveTo(0)
		c.Head([]int{200, 200, 500, 200}[i])
		us.advance(20 * time.Millisecond)
		end(c)
		us.advance(20 * time.Millisecond)
		pass(time.Second, us, eu)
	}
	if n := us.Counter(stats.CameHome + ";region=eu"); n != 4 {
		t.Errorf("%d came home", n)
	}
	if busy != nil {
		busy.Finish()
	}
	us.advance(2 * time.Second)
	us.emptiedInside()
	us.wantNoneWaits()
}

// A panic while a retry at home is taken over keeps the client from nothing, and leaves nothing behind.
func TestPanicAtHomeAfterForwarding(t *testing.T) {
	for _, call := range []string{
		"ServedBy", "KnownView", "SetNote", "ResponseHeader", "SetResponseHeader", "Details",
	} {
		fired := false
		for n := 1; n < 4; n++ {
			us, _ := startReturning(t, 1, nil)
			busy := us.client(0, regionChat)
			c := us.client(1, regionChat)
			c.moveTo(0)
			us.fault, us.faultLeft = call, n
			c.Head(500)
			c.Finish()
			fired = fired || us.faultLeft <= 0
			us.fault = ""
			if c.Result().Status != 500 {
				t.Errorf("%s: %+v", call, c.Result())
			}
			busy.Finish()
			us.advance(2 * time.Second)
			us.emptiedInside()
		}
		if !fired {
			t.Errorf("%s was not there to panic", call)
		}
	}
}
