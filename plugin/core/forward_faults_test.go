package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/lb/region"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/regions"
	"github.com/warmgate/warmgate/plugin/stats"
)

var regionChat = streamtest.Request{
	Method: "POST", Path: "/v1/chat/completions", Frames: []string{`{"prompt":"a"}`},
}

// hopOf returns a request as the gateway of another region gets it.
func hopOf(c *fakeStream) streamtest.Request {
	r := regionChat
	r.Headers = [][2]string{{regions.HopHeaders[0], c.header(regions.HopHeaders[0])}}
	return r
}

// triesToForward returns how many of the requests that wait at a worker would be sent on if there was room elsewhere.
func (w *fakeWorker) triesToForward() (tries int) {
	w.vm.Waiters.ForwardWaiting(func(*config.Config) bool { tries++; return true })
	return tries
}

// What has come from another region does not leave again, so while it waits nobody tries to send it on.
func TestForwardedAreNotSentOn(t *testing.T) {
	us, eu := startRegions(t, 1, 1, "")
	_, away := us.client(0, regionChat), us.client(0, regionChat)
	_, waits := eu.client(0, hopOf(away)), eu.client(0, hopOf(away))
	if n := eu.workers[0].triesToForward(); !waits.Held() || n != 0 {
		t.Errorf("held %v, tried %d times", waits.Held(), n)
	}
}

// Whichever call panics while a request is forwarded, at once or after a wait, it is served and counted once, and
// nothing of it remains.
func TestPanicAnywhereBetweenRegions(t *testing.T) {
	calls := []string{
		"Now", "Wall", "View", "Tick", "Cluster", "SetCluster", "RequestHeaders", "RemoveRequestHeader",
		"SetRequestHeader", "RequestBody", "Steer", "Unsteer", "ServedBy", "Random", "ResponseHeader",
		"SetResponseHeader", "SetNote", "Resume", "Probe", "Note",
	}
	fired := map[string]int{}
	for _, waits := range []bool{false, true} {
		for _, call := range calls {
			for n := 1; n < 60; n++ {
				more := false
				t.Run(fmt.Sprintf("%v/%s/%d", waits, call, n), func(t *testing.T) {
					more = panicBetweenRegions(t, waits, call, n)
				})
				if !more {
					break
				}
				fired[call]++
			}
		}
	}
	for _, call := range []string{"Wall", "Probe", "RemoveRequestHeader", "SetCluster"} {
		if fired[call] == 0 {
			t.Errorf("%s was not there to panic: %v", call, fired)
		}
	}
}

func panicBetweenRegions(t *testing.T, waits bool, call string, n int) (fired bool) {
	us, eu := startRegions(t, 1, 1, `,"queue_buffer":0`)
	busy := us.client(0, regionChat)
	var there *fakeStream
	if waits {
		there = eu.client(0, regionChat)
		pass(300*time.Millisecond, us, eu)
	}
	eu.peers = nil // whose probes here would be counted as well, if one panics
	us.fault, us.faultLeft = call, n
	r := regionChat
	r.Headers = [][2]string{{regions.HopHeaders[0], "made up"}}
	c := us.client(0, r)
	pass(300*time.Millisecond, us, eu)
	if waits {
		there.Finish()
	}
	pass(time.Second, us, eu)
	if c.Held() || c.Upstream() < 0 {
		t.Fatalf("held %v, at endpoint %d", c.Held(), c.Upstream())
	}
	// A request that goes on before its headers were read has what the client sent, which is no hop to anybody.
	hop, unread := c.Received().Headers[regions.HopHeaders[0]], us.metrics.decisions()["panic"] > 0
	if away := c.cluster == "to-eu"; hop == "made up" && (away || !unread) || away != (hop != "" && hop != "made up") {
		t.Errorf("in %q it has the hop %q", c.cluster, hop)
	}
	c.Finish()
	fired = us.faultLeft <= 0
	us.fault = ""
	busy.Finish()
	if c.Result().Status != 200 || !c.Received().Ended {
		t.Errorf("the client got %+v", c.Result())
	}
	pass(2*time.Second, us, eu)
	us.drained()
	us.wantNoneWaits()
	sum := uint64(0)
	for _, n := range us.metrics.decisions() {
		sum += n
	}
	if sum != 2 {
		t.Errorf("two requests were counted as %v", us.metrics.decisions())
	}
	return fired
}

// A probe during which something panics is not answered, and the next one is.
func TestPanicWhileAnsweringProbes(t *testing.T) {
	for _, call := range []string{"RequestHeaders", "Wall", "SetCluster", "View", "Random", "Reply"} {
		us, eu := startRegions(t, 1, 1, "")
		eu.peers, us.peers = nil, nil
		ask := func(nonce uint64) string {
			text := region.NewKey(regionSecret).SignProbe("eu", "us", fakeEpoch+us.now, nonce)
			c := us.client(0, streamtest.Request{
				Method: "GET", Path: regions.ProbePath, Headers: [][2]string{{regions.ProbeHeaders[0], text}},
			})
			if !c.Ended {
				c.Finish()
			}
			return c.Result().Headers[headerAnswer]
		}
		us.fault, us.faultLeft = call, 1
		first := ask(1)
		if us.fault = ""; us.faultLeft > 0 || first != "" {
			t.Errorf("%s: answered all the same; %d calls until the panic", call, us.faultLeft)
		}
		if ask(2) == "" {
			t.Errorf("%s: the next one is not answered", call)
		}
		us.drained()
	}
}

// Regions that count in Redis forward as others do.
func TestForwardsWithRedis(t *testing.T) {
	us, eu := newRegions(t, 1, 1, `,"queue_buffer":0`, func(d *fakeDriver, config string) string {
		d.attachRedis(t, redisserver.StartT(t, redisserver.Options{})).latency = time.Millisecond
		return strings.Replace(config, `"max_inflight"`,
			`"serviceFQDN":"redis.static","password":"my secret","reserve_timeout":"100ms","max_inflight"`, 1)
	})
	pass(2*time.Second, us, eu)
	here := us.client(0, regionChat)
	pass(50*time.Millisecond, us, eu)
	away := us.client(1, regionChat)
	pass(50*time.Millisecond, us, eu)
	if here.cluster != "llm" || away.cluster != "to-eu" {
		t.Fatalf("sent to %q and %q: %v", here.cluster, away.cluster, us.metrics.values)
	}
	there := eu.client(1, hopOf(away))
	pass(3*time.Second, us, eu)
	if there.cluster != "llm" || there.Upstream() < 0 {
		t.Errorf("the other region sends it to %q", there.cluster)
	}
	waits := us.client(0, regionChat)
	pass(time.Second, us, eu)
	if !waits.Held() {
		t.Errorf("with both regions full a request is sent to %q", waits.cluster)
	}
	there.Finish()
	pass(3*time.Second, us, eu)
	if waits.cluster != "to-eu" {
		t.Errorf("with room there it is sent to %q, held %v", waits.cluster, waits.Held())
	}
	for _, c := range []*fakeStream{waits, away, here} {
		c.Finish()
	}
	pass(time.Second, us, eu)
	us.drained()
	eu.drained()
}

// A client that leaves a forwarded request leaves nothing behind at home, and neither does one that waits for room.
func TestForwardedClientLeaves(t *testing.T) {
	us, eu := startRegions(t, 1, 1, `,"queue_buffer":0`)
	busy := us.client(0, regionChat)
	away := us.client(1, regionChat)
	if away.cluster != "to-eu" {
		t.Fatalf("sent to %q", away.cluster)
	}
	there := eu.client(0, hopOf(away))
	waits := us.client(1, regionChat)
	pass(300*time.Millisecond, us, eu)
	us.wantWaiting(waits)
	away.ResetByClient()
	there.ResetByClient() // as the gateway of that region sees it
	waits.ResetByClient()
	busy.Finish()
	pass(time.Second, us, eu)
	us.drained()
	us.wantNoneWaits()
	eu.drained()
	eu.wantNoneWaits()
	if got := us.metrics.decisions(); got["forwarded"] != 1 || got["left_queue"] != 1 || got["chosen"] != 1 {
		t.Errorf("counted as %v", got)
	}
}

// Requests that wait stay at home once a new configuration has no regions: nobody asks the others any more.
func TestRegionsAreRemoved(t *testing.T) {
	us, eu := startRegions(t, 1, 1, `,"queue_buffer":0`)
	busy, there := us.client(0, regionChat), eu.client(0, regionChat)
	pass(300*time.Millisecond, us, eu)
	waits := us.client(1, regionChat)
	us.sites[fakeCluster] = us.sites["llm"] // the route leads there without the header
	if !us.configure(queueConfig("")) {
		t.Fatal("refused")
	}
	pass(time.Second, us, eu)
	probes := us.probes
	there.Finish()
	pass(2*time.Second, us, eu)
	if us.wantWaiting(waits); us.probes != probes {
		t.Errorf("%d probes without regions", us.probes-probes)
	}
	busy.Finish()
	pass(200*time.Millisecond, us, eu)
	if waits.cluster != "llm" {
		t.Errorf("sent to %q", waits.cluster)
	}
	waits.Finish()
}

// A probe is answered once, by whichever worker, and not at all if anything of it is changed.
func TestReplayedProbes(t *testing.T) {
	us, _ := startRegions(t, 1, 1, "")
	ask := func(worker int, text string) string {
		c := us.client(worker, streamtest.Request{
			Method: "GET", Path: regions.ProbePath, Headers: [][2]string{{regions.ProbeHeaders[0], text}},
		})
		return c.Result().Headers[headerAnswer]
	}
	text := region.NewKey(regionSecret).SignProbe("eu", "us", fakeEpoch+us.now, 7)
	for i := range text {
		if ask(0, text[:i]+string(text[i]^1)+text[i+1:]) != "" {
			t.Fatalf("answered with byte %d changed", i)
		}
	}
	if ask(0, text) == "" {
		t.Fatal("a probe is not answered")
	}
	for worker := range 2 {
		if ask(worker, text) != "" {
			t.Errorf("worker %d answers it again", worker)
		}
	}
	if !us.configure(regionConfig("us", "eu", `,"queue_buffer":5`)) {
		t.Fatal("refused")
	}
	for worker := range 2 {
		if ask(worker, text) != "" {
			t.Errorf("worker %d answers it again by another configuration", worker)
		}
	}
	late := region.NewKey(regionSecret).SignProbe("eu", "us", fakeEpoch+us.now, 8)
	us.advance(region.MaxSkew + time.Second)
	if ask(0, late) != "" {
		t.Error("an old probe is answered")
	}
}

// A probe that is refused costs the servers nothing, and nobody sees by the answer what was wrong with it. Without a
// text it is a request as any other.
func TestRefusedProbes(t *testing.T) {
	us, _ := startRegions(t, 1, 1, "")
	us.peers = nil
	key := region.NewKey(regionSecret)
	ask := func(worker int, text string) *fakeStream {
		r := streamtest.Request{Method: "GET", Path: regions.ProbePath}
		if text != "" {
			r.Headers = [][2]string{{regions.ProbeHeaders[0], text}}
		}
		return us.client(worker, r)
	}
	again := key.SignProbe("eu", "us", fakeEpoch+us.now, 7)
	ask(0, again)
	for _, text := range []string{
		again, key.SignProbe("eu", "us", fakeEpoch, 8), key.SignProbe("eu", "asia", fakeEpoch+us.now, 9), "1p",
		again[:len(again)-1], region.NewKey("a stranger's secret").SignProbe("eu", "us", fakeEpoch+us.now, 10),
	} {
		c := ask(1, text)
		if c.Result().Status != 404 || len(c.Result().Headers) > 1 || c.Received().Ended {
			t.Errorf("refused: %+v", c.Result())
		}
	}
	if got := us.metrics.decisions(); len(got) > 0 {
		t.Errorf("probes are counted as %v", got)
	}
	c := ask(0, "")
	if c.cluster != "llm" || c.Upstream() < 0 {
		t.Errorf("sent to %q", c.cluster)
	}
	c.Finish()
	us.drained()
}

// Whatever clients make up for a hop, it counts for nothing, and no server gets it.
func TestForgesManyHops(t *testing.T) {
	us, eu := startRegions(t, 1, 1, "")
	const most = 10_000
	key := region.NewKey(regionSecret)
	for i := range most {
		if i%50 == 0 {
			pass(5*time.Millisecond, us, eu)
		}
		hop := key.SignHop("eu", "us", fakeEpoch+us.now, "POST /v1/chat/completions")
		switch at := i % len(hop); i % 3 {
		case 0:
			hop = hop[:at] + string('A'+byte(us.rand.IntN(26))) + "-" + hop[at:]
		case 1:
			hop = hop[:at]
		default:
			hop = hop[:at] + string(hop[at]^1) + hop[at+1:]
		}
		r := regionChat
		if r.Headers = [][2]string{{regions.HopHeaders[0], hop}}; hop == "" {
			r.Headers = [][2]string{{regions.HopHeaders[0], "?"}}
		}
		c := us.client(i%2, r)
		if c.cluster != "llm" || c.Received().Headers[regions.HopHeaders[0]] != "" {
			t.Fatalf("forged hop %d, %q: sent to %q with %q", i, hop, c.cluster,
				c.Received().Headers[regions.HopHeaders[0]])
		}
		c.Finish()
	}
	if n := us.metrics.values[stats.ForgedHops]; n != most {
		t.Errorf("%d of %d hops were found to be forged", n, most)
	}
	if n := us.metrics.values[stats.ServedFor+";region=eu"]; n != 0 {
		t.Errorf("%d were taken for another region's", n)
	}
	us.drained()
}

// A conversation goes on where it was forwarded, as long as that region has room.
func TestForwardsByThePrompt(t *testing.T) {
	us, eu := startRegions(t, 1, 4, "")
	busy := us.client(0, regionChat)
	long := regionChat
	long.Frames = []string{`{"prompt":"` + strings.Repeat("a long conversation ", 200) + `"}`}
	for _, why := range []string{"time", "prefix"} {
		c := us.client(1, long)
		c.Finish()
		if n := us.metrics.values[stats.Forwarded+";region=eu;reason="+why]; n != 1 {
			t.Errorf("%d forwarded by %s: %v", n, why, us.access)
		}
		pass(time.Second, us, eu)
	}
	busy.Finish()
	us.drained()
}
