package core

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/plugin/stats"
	"github.com/warmgate/warmgate/plugin/stores"
)

// startGateways returns two gateways with one Redis, of one worker each. They have no memory in common.
func startGateways(t *testing.T, server *redisserver.Server, endpoints int, config string) (a, b *fakeDriver) {
	t.Helper()
	start := func(seed uint64) *fakeDriver {
		d := &fakeDriver{fakeProcess: newFakeProcess(t, 0)}
		d.rand = rand.New(rand.NewPCG(seed, 4)) // owners are distinguished by a random number
		d.attachRedis(t, server).latency = time.Millisecond
		d.workers = append(d.workers, d.newWorker())
		d.SetEndpoints(make([]streamtest.Endpoint, endpoints))
		if !d.configure(config) {
			t.Fatal("refused")
		}
		return d
	}
	return start(1), start(3)
}

// Two gateways with one Redis see each other's load.
func TestGatewaysShareAView(t *testing.T) {
	server := redisserver.StartT(t, redisserver.Options{})
	a, b := startGateways(t, server, 4, redisConfig(""))
	var open []*fakeStream
	for i := range 8 {
		open = append(open, []*fakeDriver{a, b}[i%2].client(0, streamtest.Request{}))
	}
	for addr, load := range a.redis.loads() {
		if load.Requests != 2 {
			t.Errorf("%s has %d requests, want 2 everywhere", addr, load.Requests)
		}
	}
	for i, c := range open {
		if got := c.Upstream(); got < 0 {
			t.Errorf("request %d reached no endpoint", i)
		}
		c.Finish()
	}
	a.drained()
	b.drained()
}

// While Redis is unavailable each gateway counts locally, and afterwards Redis has what was counted in between.
func TestRedisGoesAndComesBack(t *testing.T) {
	server := redisserver.StartT(t, redisserver.Options{})
	d := startRedis(t, server, 2, 2, "")
	d.warm()
	d.advance(2 * time.Second)
	if d.metrics.values[stats.RedisUp] != 1 {
		t.Error("Redis is not up")
	}
	before := d.client(0, streamtest.Request{})
	d.redis.fate = redisRefuses
	var during []*fakeStream
	for i := range 7 {
		during = append(during, d.client(i%2, streamtest.Request{}))
	}
	d.advance(2 * time.Second)
	if d.metrics.values[stats.RedisUp] != 0 {
		t.Error("Redis is up")
	}
	if one, two := d.load(d.Addr(0)).Requests, d.load(d.Addr(1)).Requests; one != 4 || two != 4 {
		t.Errorf("the gateway counts %d and %d, want 4 and 4", one, two)
	}
	before.Finish()
	d.redis.fate = redisAnswers
	d.advance(2 * time.Second)
	if d.metrics.values[stats.RedisUp] != 1 {
		t.Error("Redis is not up again")
	}
	sum := int64(0)
	for addr, load := range d.redis.loads() {
		if sum += load.Requests; load != d.load(addr) {
			t.Errorf("%s: Redis counts %+v, the gateway %+v", addr, load, d.load(addr))
		}
	}
	if sum != 7 {
		t.Errorf("Redis counts %d requests, want the 7 that began while it was away", sum)
	}
	for _, c := range during {
		c.Finish()
	}
	d.advance(time.Second)
	d.drained()
	log := strings.Join(d.log, "\n")
	if n := strings.Count(log, "unavailable (unreachable)"); n != 2 { // once for each worker
		t.Errorf("the log has %d times that Redis fails, want twice:\n%s", n, log)
	}
	if n := strings.Count(log, "available again"); n != 2 {
		t.Errorf("the log has %d times that Redis answers again, want twice:\n%s", n, log)
	}
	if strings.Contains(log, "secret") {
		t.Errorf("a password in the log:\n%s", log)
	}
}

// A Redis that keeps failing is logged twice a minute.
func TestRedisFailuresAreLoggedNowAndThen(t *testing.T) {
	d := startFake(t, 1, 1, redisConfig(""))
	for range 61 {
		d.serve(0, 200)
		d.advance(time.Second)
	}
	if n := strings.Count(strings.Join(d.log, "\n"), "using local counts"); n < 2 || n > 3 {
		t.Errorf("mentioned %d times in a minute: %q", n, d.log)
	}
	if got := d.metrics.decisions(); got["chosen"] != 61 {
		t.Errorf("decisions %v", got)
	}
}

// Configurations that name the same Redis share its store; a new password is used at once; a store that no
// configuration names any more is dropped when its last request has ended.
func TestStoresFollowTheConfigurations(t *testing.T) {
	server := redisserver.StartT(t, redisserver.Options{})
	d := startRedis(t, server, 1, 2, "")
	v := d.workers[0].vm
	only := func() *stores.Redis {
		t.Helper()
		if len(v.Stores.InRedis) != 1 {
			t.Fatalf("%d stores", len(v.Stores.InRedis))
		}
		for _, sh := range v.Stores.InRedis {
			return sh
		}
		return nil
	}
	first, link := only(), d.redis.latest
	old := d.client(0, streamtest.Request{})
	if !d.configure(strings.Replace(redisConfig(`"max_inflight":5`), "my secret", "another", 1)) {
		t.Fatal("refused")
	}
	if only() != first || link.login.Password != "another" {
		t.Errorf("the store is another one, or has the password %q", link.login.Password)
	}
	if !d.configure(redisConfig(`"database":1`)) {
		t.Fatal("refused")
	}
	d.client(0, streamtest.Request{}).Finish()
	d.advance(3 * time.Second)
	if len(v.Stores.InRedis) != 2 {
		t.Errorf("%d stores while a request is counted in the old one, want 2", len(v.Stores.InRedis))
	}
	kept := link.kept
	old.Finish()
	d.advance(3 * time.Second)
	if only() == first {
		t.Error("the old store is still there, and the new one is not")
	}
	if link.kept != kept {
		t.Error("the old login is used still")
	}
	if !d.configure(`{"enabled":false}`) {
		t.Fatal("refused")
	}
	d.advance(2 * time.Second)
	if len(v.Stores.InRedis) != 0 {
		t.Errorf("%d stores that no configuration names", len(v.Stores.InRedis))
	}
	d.drained()
}

// A store that no configuration names any more is dropped when Redis has received the ends of all its requests, or
// after the TTL.
func TestUnusedStoresAreDropped(t *testing.T) {
	server := redisserver.StartT(t, redisserver.Options{})
	d := startRedis(t, server, 1, 2, "")
	v := d.workers[0].vm
	old := d.client(0, streamtest.Request{})
	if !d.configure(redisConfig(`"reserve_timeout":"30ms"`)) {
		t.Fatal("refused")
	}
	d.advance(2 * time.Second)
	d.redis.fate = redisRefuses
	old.Finish()
	d.advance(time.Second)
	if len(v.Stores.InRedis) != 2 {
		t.Errorf("%d stores while Redis counts a request that has ended, want 2", len(v.Stores.InRedis))
	}
	d.redis.fate = redisAnswers
	d.advance(3 * time.Second) // a heartbeat lists what there is, the next that it is gone
	if len(v.Stores.InRedis) != 1 {
		t.Errorf("%d stores, want 1", len(v.Stores.InRedis))
	}
	for addr, load := range d.redis.loads() {
		if load.Requests != 0 {
			t.Errorf("Redis has %+v left at %s", load, addr)
		}
	}
	last := d.client(0, streamtest.Request{})
	if !d.configure(`{"enabled":false}`) {
		t.Fatal("refused")
	}
	d.redis.fate = redisRefuses
	last.Finish()
	d.advance(stores.LeaseTTL + 2*time.Second)
	if len(v.Stores.InRedis) != 0 {
		t.Errorf("%d stores after the time in which Redis returns their leases", len(v.Stores.InRedis))
	}
	d.redis.fate = redisAnswers
}

// A replica in place of Redis is named as such in the log, once, and Redis is not up as long as it answers.
func TestRedisIsAReplica(t *testing.T) {
	d := startRedis(t, redisserver.StartT(t, redisserver.Options{}), 1, 2, "")
	d.warm()
	d.advance(2 * time.Second)
	d.redis.cut = []byte("-READONLY You can't write against a read only replica.\r\n")
	for range 30 {
		d.client(0, streamtest.Request{}).Finish()
		d.advance(100 * time.Millisecond)
	}
	if d.metrics.values[stats.RedisUp] != 0 {
		t.Error("Redis is up, although a replica answers")
	}
	if lines := strings.Join(d.log, "\n"); strings.Count(lines, "leads to a read-only replica") != 2 {
		t.Errorf("the log is:\n%s", lines) // with the first request that is counted here, and with the heartbeat
	}
	d.redis.cut = nil
	d.advance(10 * time.Second)
	d.client(0, streamtest.Request{}).Finish()
	d.advance(2 * time.Second)
	if d.metrics.values[stats.RedisUp] != 1 {
		t.Error("Redis is not up again")
	}
	d.drained()
}
