package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/lb/region"
	"github.com/warmgate/warmgate/plugin/regions"
)

// headerAnswer is where the answer to a probe is.
const headerAnswer = "x-warmgate-probe-answer"

// ask sends a probe of the region eu to a worker.
func (d *fakeDriver) ask(worker int, nonce uint64, frames ...string) *fakeStream {
	text := region.NewKey(regionSecret).SignProbe("eu", "us", fakeEpoch+d.now, nonce)
	return d.client(worker, streamtest.Request{
		Method: "GET", Path: regions.ProbePath, Headers: [][2]string{{regions.ProbeHeaders[0], text}}, Frames: frames,
	})
}

// said returns what the answer to a probe says; false if there is none.
func (d *fakeDriver) said(c *fakeStream) (region.State, bool) {
	d.t.Helper()
	text := c.Result().Headers[headerAnswer]
	if text == "" {
		return region.State{}, false
	}
	a, err := region.NewKey(regionSecret).ReadAnswer(text, "eu", fakeEpoch+d.now)
	if err != nil || c.Result().Status != 204 {
		d.t.Fatalf("status %d: %v", c.Result().Status, err)
	}
	return a.State, true
}

// wantSaid fails the test unless the answer says that so many places are open.
func (d *fakeDriver) wantSaid(what string, c *fakeStream, open int) {
	d.t.Helper()
	if got, ok := d.said(c); !ok || got.Open != open {
		d.t.Errorf("%s: answered %v, %d open, want %d", what, ok, got.Open, open)
	}
}

// startRedisRegion returns the gateway of a region with three workers, which counts in Redis, and nobody who asks.
func startRedisRegion(t *testing.T, endpoints int) *fakeDriver {
	t.Helper()
	us, _ := newRegions(t, endpoints, 1, "", func(d *fakeDriver, config string) string {
		d.attachRedis(t, redisserver.StartT(t, redisserver.Options{})).latency = time.Millisecond
		return strings.Replace(config, `"max_inflight"`,
			`"serviceFQDN":"redis.static","password":"my secret","reserve_timeout":"100ms","max_inflight"`, 1)
	})
	us.peers = nil
	us.advance(2 * time.Second)
	return us
}

// Whatever rule what is forwarded will match, there is the room that a probe was told of: by the rule with the least.
func TestProbesAreAnsweredByTheTightestRule(t *testing.T) {
	for name, c := range map[string]struct{ of, all, more string }{
		"the first rule": {"1", "3", ""},
		"the last rule":  {"3", "1", ""},
		"shadow":         {"3", "3", `"shadow":true,"max_inflight":1,`},
		"switched off":   {"3", "3", `"max_inflight":1,`},
	} {
		us, _ := newRegions(t, 2, 1, "", func(_ *fakeDriver, config string) string {
			capped := func(limit, more string) string {
				return strings.Replace(config, `"max_inflight":1,`, more+fmt.Sprintf(`"max_inflight":%s,`, limit), 1)
			}
			rule := capped(c.of, "")
			if c.more != "" {
				rule = strings.Replace(config, `"max_inflight":1,`, c.more, 1)
			}
			if name == "switched off" {
				rule = `{"enabled":false,` + rule[1:]
			}
			return capped(c.all, "")[:len(capped(c.all, ""))-1] + `,"_rules_":[{"_match_route_":["other"],` + rule[1:] + `]}`
		})
		us.peers = nil
		us.advance(3 * time.Second) // the other region asks no more
		places := 2
		if c.more != "" {
			places = 6
		}
		us.wantSaid(name+", idle", us.ask(0, 1), places)
		busy := us.client(0, regionChat)
		us.wantSaid(name, us.ask(1, 2), places-1)
		busy.Finish()
	}
}

// A worker that was never asked before, and has had no request, knows what is in flight in Redis.
func TestProbesOfIdleWorkersWithRedis(t *testing.T) {
	us := startRedisRegion(t, 3)
	nonce := uint64(0)
	for busy := range 4 {
		for worker := range 2 {
			nonce++
			us.wantSaid(fmt.Sprintf("%d requests, worker %d", busy, worker), us.ask(worker, nonce), 3-busy)
			us.advance(30 * time.Second)
		}
		us.client(0, regionChat)
	}
	us.client(0, regionChat)
	us.advance(3 * time.Second) // while two requests wait
	nonce++
	if got, ok := us.said(us.ask(1, nonce)); !ok || got.Open != 0 || got.Queued != 2 {
		t.Errorf("while requests wait: %v, %+v", ok, got)
	}
	for _, body := range [][]string{{"a"}, {"a", "b"}} { // a proxy may have made one
		nonce++
		us.wantSaid("a probe with a body", us.ask(1, nonce, body...), 0)
	}
}

// A probe is answered although Redis does not: there is no room as far as is known. Who asks may leave before.
func TestProbesWithoutAnswerOfRedis(t *testing.T) {
	us := startRedisRegion(t, 2)
	us.redis.fate, us.redis.manual = redisSilent, true
	c := us.ask(0, 1)
	if _, ok := us.said(c); ok || !c.Held() {
		t.Fatal("answered without Redis")
	}
	us.advance(200 * time.Millisecond)
	us.wantSaid("Redis is silent", c, 0)
	left := us.ask(1, 2)
	left.ResetByClient()
	us.advance(200 * time.Millisecond)
	if _, ok := us.said(left); ok {
		t.Error("answered after the end")
	}
	for nonce := range uint64(20) { // until the circuit breaker is open, and then
		c := us.ask(int(nonce%2), 10+nonce)
		us.advance(300 * time.Millisecond)
		us.wantSaid(fmt.Sprintf("Redis is silent, probe %d", nonce), c, 0)
	}
	us.redis.fate, us.redis.manual = redisAnswers, false
	us.advance(10 * time.Second)
	us.wantSaid("later", us.ask(0, 50), 2)
	us.drained()
}

// A probe during whose answer something panics, after Redis has told, is ended, and the next one is answered.
func TestPanicWhileAProbeIsHeld(t *testing.T) {
	for _, call := range []string{"Wall", "Reply"} {
		us := startRedisRegion(t, 1)
		us.redis.manual = true
		c := us.ask(0, 1)
		us.fault, us.faultLeft = call, 1
		us.advance(10 * time.Millisecond)
		if us.fault = ""; us.faultLeft > 0 || c.Held() {
			t.Errorf("%s: held %v, %d calls until the panic", call, c.Held(), us.faultLeft)
		}
		if !c.Ended {
			c.Finish()
		}
		if _, ok := us.said(c); ok {
			t.Errorf("%s: answered all the same", call)
		}
		us.redis.manual = false
		us.wantSaid(call+", the next", us.ask(0, 2), 1)
		us.drained()
	}
}
