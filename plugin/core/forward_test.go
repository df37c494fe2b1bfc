package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/region"
	"github.com/warmgate/warmgate/plugin/clusters"
	"github.com/warmgate/warmgate/plugin/regions"
	"github.com/warmgate/warmgate/plugin/stats"
)

const regionSecret = "a secret of both regions"

// regionConfig returns the configuration of a region's gateway: one request at a time for each endpoint.
func regionConfig(name, peer, members string) string {
	return fmt.Sprintf(`{"lb_policy":"prefix_cache","lb_config":{"debug_headers":true,"max_inflight":1,`+
		`"health":{"slow_start":0},"queue":{"max_wait":"10s"},"regions":{"name":%q,"cluster":"llm","secret":%q,`+
		`"peers":[{"name":%q,"cluster":"to-%s","rtt":"20ms"}],"probe_interval":"100ms"%s}}}`,
		name, regionSecret, peer, peer, members)
}

// startRegions returns the gateways of two regions, us and eu, with so many endpoints each.
func startRegions(t *testing.T, us, eu int, members string) (*fakeDriver, *fakeDriver) {
	t.Helper()
	return newRegions(t, us, eu, members, func(_ *fakeDriver, config string) string { return config })
}

// home returns its region as the worker's configuration in force sees it.
func (w *fakeWorker) home() *regions.Home { return w.vm.Regions.Of(w.current.Set.Regions()[0]) }

// newRegions does so with configurations that are changed, each before its gateway starts.
func newRegions(t *testing.T, us, eu int, members string, change func(d *fakeDriver, config string) string) (
	*fakeDriver, *fakeDriver,
) {
	t.Helper()
	start := func(name, peer string, endpoints int) *fakeDriver {
		d := &fakeDriver{fakeProcess: newFakeProcess(t, 2)}
		d.SetEndpoints(make([]streamtest.Endpoint, endpoints+1))
		d.known, d.sites = map[string]*lb.View{}, map[string][]int{"to-" + peer: {endpoints}, fakeCluster: {endpoints}}
		for i := range endpoints {
			d.sites["llm"] = append(d.sites["llm"], i)
		}
		if config := change(d, regionConfig(name, peer, members)); !d.configure(config) {
			t.Fatalf("refused: %s", config)
		}
		return d
	}
	a, b := start("us", "eu", us), start("eu", "us", eu)
	a.rtt, b.rtt = 20*time.Millisecond, 20*time.Millisecond
	a.peers, b.peers = map[string]*fakeProcess{"to-eu": b.fakeProcess}, map[string]*fakeProcess{"to-us": a.fakeProcess}
	pass(time.Second, a, b)
	return a, b
}

// pass lets time pass in processes that speak with each other.
func pass(d time.Duration, of ...*fakeDriver) {
	const step = 5 * time.Millisecond
	for range d / step {
		for _, p := range of {
			p.advance(step)
		}
	}
}

// A request that finds no endpoint open goes to the other region, whose gateway serves it and does not send it on.
func TestForwards(t *testing.T) {
	us, eu := startRegions(t, 2, 1, "")
	chat := streamtest.Request{Frames: []string{`{"prompt":"a"}`}}
	var here []*fakeStream
	for i := range 2 {
		c := us.client(i, chat)
		if c.Upstream() >= 2 || c.cluster != "llm" {
			t.Fatalf("request %d is sent to %s", i, c.cluster)
		}
		here = append(here, c)
	}
	away := us.client(0, chat)
	if away.cluster != "to-eu" || away.header(regions.HopHeaders[0]) == "" {
		t.Fatalf("with all endpoints full a request is sent to %q: held %v", away.cluster, away.Held())
	}
	if at := away.core.first.Response.SentAt; at != us.now {
		t.Errorf("it was sent at %s, by what is measured at %s", us.now, at)
	}
	forwarded := chat
	forwarded.Headers = [][2]string{{regions.HopHeaders[0], away.header(regions.HopHeaders[0])}}
	there := eu.client(0, forwarded)
	if there.cluster != "llm" || there.header(regions.HopHeaders[0]) != "" {
		t.Errorf("the other region sends it to %q", there.cluster)
	}
	second := eu.client(1, forwarded)
	if !second.Held() {
		t.Errorf("a forwarded request for which nothing is open is sent to %q", second.cluster)
	}
	pass(time.Second, us, eu)
	if !second.Held() {
		t.Errorf("later it is sent to %q", second.cluster)
	}
	there.Finish()
	pass(200*time.Millisecond, us, eu)
	second.Finish()
	away.Finish()
	for _, c := range here {
		c.Finish()
	}
	if away.Result().Headers["x-warmgate-region"] != "eu" || away.Result().Headers["x-warmgate-reason"] != "forwarded" {
		t.Errorf("headers %v", away.Result().Headers)
	}
	if n := us.metrics.values[stats.Forwarded+";region=eu;reason=time"]; n != 1 {
		t.Errorf("%d forwarded: %v", n, us.metrics.values)
	}
	if n := eu.metrics.values[stats.ServedFor+";region=us"]; n != 2 {
		t.Errorf("%d served for the other region", n)
	}
	us.drained()
	eu.drained()
}

// Requests that wait at home go to the other region as soon as there is room, and never more than that has room for.
func TestForwardsWhoWaits(t *testing.T) {
	us, eu := startRegions(t, 1, 1, `,"queue_buffer":0`)
	chat := streamtest.Request{Frames: []string{`{"prompt":"a"}`}}
	first, busy := us.client(0, chat), eu.client(0, chat)
	pass(300*time.Millisecond, us, eu) // it is known that the other region is full
	waits := []*fakeStream{us.client(0, chat), us.client(1, chat)}
	us.wantWaiting(waits...)
	busy.Finish()
	for range 100 {
		if pass(5*time.Millisecond, us, eu); waits[0].cluster == "to-eu" {
			break
		}
	}
	hop := [][2]string{{regions.HopHeaders[0], waits[0].header(regions.HopHeaders[0])}}
	there := eu.client(0, streamtest.Request{Frames: chat.Frames, Headers: hop})
	pass(400*time.Millisecond, us, eu)
	if waits[0].cluster != "to-eu" || !waits[1].Held() {
		t.Errorf("sent to %q and %q, the second waits: %v", waits[0].cluster, waits[1].cluster, waits[1].Held())
	}
	there.Finish()
	waits[0].Finish()
	first.Finish()
	pass(200*time.Millisecond, us, eu)
	waits[1].Finish()
	us.drained()
	eu.drained()
}

// A rule may keep its requests at home; a peer that does not answer gets none; and neither does one that says so with
// another secret, or too late.
func TestStaysAtHome(t *testing.T) {
	chat := streamtest.Request{Frames: []string{`{"prompt":"a"}`}}
	for name, c := range map[string]struct {
		members string
		change  func(us, eu *fakeDriver)
	}{
		"not allowed":   {`,"allowed":[]`, func(_, _ *fakeDriver) {}},
		"cut off":       {"", func(us, _ *fakeDriver) { us.peers = nil }},
		"another clock": {"", func(_, eu *fakeDriver) { eu.ahead = time.Hour }},
		"full":          {`,"queue_buffer":0`, func(_, eu *fakeDriver) { eu.client(0, chat) }},
	} {
		t.Run(name, func(t *testing.T) {
			us, eu := startRegions(t, 1, 1, c.members)
			c.change(us, eu)
			pass(2*time.Second, us, eu)
			busy := us.client(0, chat)
			w := us.client(1, chat)
			pass(time.Second, us, eu)
			if !w.Held() || w.cluster == "to-eu" {
				t.Errorf("sent to %q", w.cluster)
			}
			busy.Finish()
			pass(200*time.Millisecond, us, eu)
			w.Finish()
			us.drained()
		})
	}
}

// What a client makes up counts for nothing: its hop is taken off and counted, and its probe is no probe.
func TestForgedHops(t *testing.T) {
	us, eu := startRegions(t, 1, 1, "")
	busy := us.client(0, streamtest.Request{Frames: []string{`{"prompt":"a"}`}})
	forger := region.NewKey("another secret")
	for i, hop := range []string{
		"x", "", forger.SignHop("eu", "us", fakeEpoch+us.now, "POST /v1/chat/completions"),
		region.NewKey(regionSecret).SignHop("eu", "us", fakeEpoch+us.now, "POST /other"),
	} {
		r := streamtest.Request{Frames: []string{`{"prompt":"a"}`}, Headers: [][2]string{{regions.HopHeaders[0], hop}}}
		c := us.client(i%2, r)
		if c.cluster != "to-eu" {
			t.Errorf("hop %d keeps a request at home", i)
		}
		if got := c.header(regions.HopHeaders[0]); got == hop {
			t.Errorf("hop %d is passed on", i)
		}
		c.Finish()
		pass(time.Second, us, eu)
	}
	if n := us.metrics.values[stats.ForgedHops]; n != 3 {
		t.Errorf("%d forged hops", n)
	}
	probe := us.client(0, streamtest.Request{
		Method: "GET", Path: regions.ProbePath,
		Headers: [][2]string{{regions.ProbeHeaders[0], forger.SignProbe("eu", "us", fakeEpoch+us.now, 1)}},
	})
	if probe.Result().Headers[headerAnswer] != "" || probe.Result().Status == 204 {
		t.Errorf("a stranger is answered: %+v", probe.Result())
	}
	busy.Finish()
}

// A request with a genuine hop stays where it arrives: late, as a retry does, at a gateway with another clock, or in a
// region that it was not meant for. Else it counts as a client's.
func TestOddHops(t *testing.T) {
	us, eu := startRegions(t, 1, 1, "")
	busy := us.client(0, regionChat)
	key := region.NewKey(regionSecret)
	for i, c := range []struct {
		from, to string
		ago      time.Duration
		why      string
	}{
		{"eu", "us", region.MaxSkew + time.Second, "late"},
		{"eu", "us", time.Hour, "late"},
		{"eu", "us", -time.Hour, "late"},
		{"eu", "asia", 0, "elsewhere"},
		{"us", "eu", 0, "elsewhere"},
	} {
		r, before := regionChat, us.metrics.values[stats.OddHops+";cause="+c.why]
		hop := key.SignHop(c.from, c.to, fakeEpoch+us.now-c.ago, "POST /v1/chat/completions")
		r.Headers = [][2]string{{regions.HopHeaders[0], hop}}
		w := us.client(i%2, r)
		pass(time.Second, us, eu)
		if !w.Held() || w.cluster == "to-eu" {
			t.Errorf("hop %d: sent to %q", i, w.cluster)
		}
		w.ResetByClient()
		if n := us.metrics.values[stats.OddHops+";cause="+c.why]; n != before+1 {
			t.Errorf("hop %d: %d counted as %s, before %d", i, n, c.why, before)
		}
	}
	if n := us.metrics.values[stats.ForgedHops]; n != 0 {
		t.Errorf("%d forged hops", n)
	}
	if n := us.metrics.values[stats.ServedFor+";region=eu"]; n != 0 {
		t.Errorf("%d taken for requests that were forwarded here just now", n)
	}
	busy.Finish()
	us.drained()
}

// Retries of what another region has just forwarded are no retries here; those with a hop that someone has kept are.
func TestRetriesWithHops(t *testing.T) {
	us, _ := newRegions(t, 1, 1, `,"allowed":[]`, func(_ *fakeDriver, config string) string {
		return strings.Replace(config, `"max_wait":"10s"`, `"max_wait":"10s","max_length":1`, 1)
	})
	busy, waits := us.client(0, regionChat), us.client(0, regionChat)
	retry := func(hops ...[2]string) *fakeStream {
		r := regionChat
		r.Headers = append([][2]string{{"x-envoy-attempt-count", "2"}}, hops...)
		return us.client(0, r)
	}
	us.client(0, regionChat).wantRefused(t, "max_queue_size_exceeded")
	for range clusters.FreeRetries {
		retry().wantRefused(t, "max_queue_size_exceeded")
	}
	retry().wantRefused(t, "retry_budget_exceeded")
	for _, c := range []struct {
		to   string
		ago  time.Duration
		code string
	}{
		{"us", time.Second, "max_queue_size_exceeded"},
		{"us", region.MaxSkew + time.Second, "retry_budget_exceeded"},
		{"asia", time.Second, "retry_budget_exceeded"},
	} {
		wall := fakeEpoch + us.now - c.ago
		hop := region.NewKey(regionSecret).SignHop("eu", c.to, wall, "POST /v1/chat/completions")
		retry([2]string{regions.HopHeaders[0], hop}).wantRefused(t, c.code)
	}
	busy.Finish()
	waits.ResetByClient()
	us.drained()
}

// A request does not go to the cluster that a client names, nor is it refused: it may be another region's, whose
// gateway has written there where it sends it.
func TestRegionOfTheClientsChoice(t *testing.T) {
	us, _ := startRegions(t, 1, 1, "")
	r := regionChat
	r.Headers = [][2]string{{"x-higress-target-cluster", "to-eu"}}
	c := us.client(0, r)
	if c.cluster != "llm" || c.Upstream() < 0 {
		t.Errorf("sent to %q: %+v", c.cluster, c.Result())
	}
	c.Finish()
	us.drained()
}

// A request for which nothing at home is healthy goes to another region as if all were full; also one that waits, and
// one of which the body was read. Without another region it fails as before.
func TestForwardsWithoutHealthy(t *testing.T) {
	for _, policy := range []string{"prefix_cache", "global_least_request"} {
		us, eu := newRegions(t, 1, 4, "", func(_ *fakeDriver, config string) string {
			return strings.Replace(config, "prefix_cache", policy, 1)
		})
		busy := us.client(0, regionChat)
		for range 20 { // as if others had filled the room there
			us.workers[0].home().Board.Forward(us.now, &region.Request{Session: 1})
		}
		waits := us.client(0, regionChat)
		us.wantWaiting(waits)
		us.endpoints[0].State = lb.Unhealthy
		pass(time.Second, us, eu)
		away := us.client(1, regionChat)
		for i, c := range []*fakeStream{waits, away} {
			if c.cluster != "to-eu" || c.header(regions.HopHeaders[0]) == "" {
				t.Fatalf("%s: request %d is sent to %q", policy, i, c.cluster)
			}
			there := eu.client(0, hopOf(c))
			there.wantAt(false)
			there.Finish()
			c.Finish()
		}
		busy.Finish()
		if got := us.metrics.decisions(); got["forwarded"] != 2 || got["no_healthy_endpoint"] != 0 {
			t.Errorf("%s: counted as %v", policy, got)
		}
		us.peers = nil
		pass(2*time.Second, us, eu)
		if c := us.client(0, regionChat); c.Result().Status != 503 || c.header(regions.HopHeaders[0]) != "" {
			t.Errorf("%s: %+v", policy, c.Result())
		}
		us.drained()
		us.wantNoneWaits()
	}
}

// A region says how many requests its servers take, not how many servers: at once as many are sent to one server of
// eight places, and as many more as may wait there. The others wait at home.
func TestProbesTellOfPlaces(t *testing.T) {
	us, eu := newRegions(t, 1, 1, "", func(_ *fakeDriver, config string) string {
		return strings.Replace(config, `"max_inflight":1`, `"max_inflight":8`, 1)
	})
	us.endpoints[0].State = lb.Unhealthy
	us.advance(time.Second)
	var away, waits []*fakeStream
	for i := range 12 {
		if c := us.client(i%2, regionChat); c.cluster == "to-eu" {
			away = append(away, c)
		} else {
			waits = append(waits, c)
		}
	}
	us.wantWaiting(waits...)
	pass(time.Second, us, eu)
	for _, c := range waits {
		if c.cluster != "to-eu" {
			t.Errorf("one that waits is sent to %q", c.cluster)
		}
		c.Finish()
	}
	if len(away) != 10 {
		t.Errorf("%d are sent to a server with 8 places, behind which 2 may wait", len(away))
	}
	for _, c := range away {
		c.Finish()
	}
	us.drained()
}

// Several turns of a conversation go to one region while nothing at home is healthy.
func TestForwardsByThePromptWithoutHealthy(t *testing.T) {
	us, eu := startRegions(t, 1, 4, "")
	us.endpoints[0].State = lb.Unhealthy
	long := regionChat
	long.Frames = []string{`{"prompt":"` + strings.Repeat("a long conversation ", 200) + `"}`}
	for i, why := range []string{"time", "prefix"} {
		c := us.client(i, long)
		c.Finish()
		if n := us.metrics.values[stats.Forwarded+";region=eu;reason="+why]; n != 1 {
			t.Errorf("%d forwarded by %s: %v", n, why, us.access)
		}
		pass(time.Second, us, eu)
	}
	us.drained()
}
