package streamtest_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/redisclient"
)

// redisSource has Redis count. The timeout is long enough for a loaded machine; other tests check that no request waits
// longer than its timeout.
const redisSource = `"reserve_timeout":"10s","envoy":{"admin_cluster":"warmgate-admin","poll_interval":"100ms","redis_cluster":"warmgate-redis","metrics_cluster":"warmgate-metrics"}`

// The groups of scenarios that the short form plays where others play all of them: those that are about counts, with
// counts in Redis, and those in which the gateway has a part, on a real Envoy. Its queue is played with Redis, and
// e2e/shipped has it read metrics.
var (
	shortRedis = []string{"balance", "end", "queue", "budget"}
	shortEnvoy = []string{"balance", "end", "body", "protocol", "native", "config", "health", "view"}
)

func TestEnvoyRedis(t *testing.T) {
	if testing.Short() {
		runEnvoyRedis(t, 1, harness.DefaultVersion, shortRedis...)
		return
	}
	runEnvoyRedis(t, 3, harness.DefaultVersion)
}

func TestEnvoyRedisOldest(t *testing.T) {
	harness.LongT(t)
	runEnvoyRedis(t, 2, harness.OldestVersion, "body", "end", "protocol")
}

// runEnvoyRedis runs the scenarios on gateways with a Redis server each. All of their requests must be counted in
// Redis, and nothing may be left in it.
func runEnvoyRedis(t *testing.T, n int, version string, groups ...string) {
	t.Parallel()
	module := artifactCopy(t)
	idle := make(chan *harness.Gateway, n)
	servers := map[*harness.Gateway]*redisserver.Server{}
	for range n {
		server := redisserver.StartT(t, redisserver.Options{})
		gw := harness.StartT(t, harness.Options{
			Version: version, Redis: server.Addr(), Edit: forScenarios, Config: baseOf(redisSource), Module: module,
		})
		servers[gw] = server
		idle <- gw
	}
	t.Run("scenarios", func(t *testing.T) {
		runOnIdle(t, idle, redisSource, func(d *envoy) { d.settle = func() { d.settleIn(servers[d.gw]) } }, groups...)
	})
	for gw, server := range servers {
		if fallbacks, err := gw.Stats(t.Context(), `warmgate_store_fallbacks_total`); err != nil || len(fallbacks) != 0 {
			t.Errorf("requests were not counted in Redis: %v %v", fallbacks, err)
		}
		if up, err := gw.Sum(t.Context(), `warmgate_redis_up`); err != nil || up != 1 {
			t.Errorf("warmgate_redis_up is %g (%v)", up, err)
		}
		awaitDrained(t, server)
	}
}

// settleIn waits until Redis counts no more requests than are open: a release takes as long as a command.
func (d *envoy) settleIn(s *redisserver.Server) {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		counted := int64(0)
		for _, load := range busyIn(d.t, s, "llm") {
			counted += load.Requests
		}
		for _, stream := range d.streams {
			select {
			case <-stream.done:
			default:
				counted--
			}
		}
		if counted <= 0 {
			return
		}
	}
}

// awaitDrained waits until nothing is in flight by Redis's count.
func awaitDrained(t *testing.T, s *redisserver.Server) {
	t.Helper()
	var busy map[string]lb.Load
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if busy = busyIn(t, s, "llm"); len(busy) == 0 {
			return
		}
	}
	t.Errorf("in Redis, these still carry requests: %v", busy)
}

// busyIn returns the endpoints with requests in flight by Redis's count.
func busyIn(t *testing.T, s *redisserver.Server, scope string) map[string]lb.Load {
	t.Helper()
	k := redisclient.KeysOf(scope)
	table, err := s.Do("GET", k.Table)
	if err != nil {
		t.Fatal(err)
	}
	list, err := s.Do("HGETALL", k.Rows)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]int{}
	for items := list.Array(); len(items) >= 2; items = items[2:] {
		if items[0].String() == "" { // the spare rows
			continue
		}
		if rows[items[0].String()], err = strconv.Atoi(strings.TrimSpace(items[1].String())); err != nil {
			t.Fatal(err)
		}
	}
	busy := redisclient.ParseLoads(table.Bytes(), rows)
	for addr, load := range busy {
		if load == (lb.Load{}) {
			delete(busy, addr)
		}
	}
	return busy
}
