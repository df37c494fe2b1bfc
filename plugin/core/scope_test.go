package core

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/e2e/streamtest"
)

// Gateways whose clusters have the same name count together, unless they are given different names for that.
func TestGatewaysCountByTheChosenName(t *testing.T) {
	const zoneA, zoneB = `"redis_scope":"zone a"`, `"redis_scope":"zone b"`
	for name, c := range map[string]struct {
		first, second string // of the configuration
		scope         string // of the first
		owners        int64  // in that
	}{
		"no names":    {"", "", fakeCluster, 2},
		"one name":    {zoneA, zoneA, "zone a", 2},
		"two names":   {zoneA, zoneB, "zone a", 1},
		"one without": {"", zoneB, fakeCluster, 1},
	} {
		t.Run(name, func(t *testing.T) {
			server := redisserver.StartT(t, redisserver.Options{})
			a := startRedis(t, server, 1, 2, c.first)
			b := &fakeDriver{fakeProcess: newFakeProcess(t, 0)}
			b.rand = rand.New(rand.NewPCG(3, 4))
			b.attachRedis(t, server).latency = time.Millisecond
			b.workers = append(b.workers, b.newWorker())
			b.SetEndpoints(make([]streamtest.Endpoint, 2))
			if !b.configure(redisConfig(c.second)) {
				t.Fatal("refused")
			}
			open := []*fakeStream{a.client(0, streamtest.Request{}), b.client(0, streamtest.Request{})}
			if got := a.redis.value("ZCARD", "warmgate:4:{"+c.scope+"}:owners").Int; got != c.owners {
				t.Errorf("%d gateways count in %q, want %d", got, c.scope, c.owners)
			}
			for _, c := range open {
				c.Finish()
			}
			a.drained()
			b.drained()
		})
	}
}
