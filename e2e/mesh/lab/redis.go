package lab

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/resp"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/redisclient"
)

// User and Password are those of the only user of Redis's server: the one that the files in deploy/ name, with a
// password of its own.
const (
	User     = "warmgate"
	Password = harness.OwnSecret
)

// Redis starts a server for counts, until the test ends. It has the users of envoy-config/redis-user.acl and no other.
func Redis(t *testing.T) *redisserver.Server {
	t.Helper()
	s := redisserver.StartT(t, redisserver.Options{})
	users := harness.Own(string(harness.ReadT(t, "envoy-config/redis-user.acl")))
	if !strings.Contains(users, "user "+User+" on >"+Password+" ") {
		t.Fatalf("the users are %q", users)
	}
	for line := range strings.Lines(users) {
		setUser := []any{"ACL", "SETUSER"}
		for _, rule := range strings.Fields(line)[1:] {
			setUser = append(setUser, rule)
		}
		if _, err := s.Do(setUser...); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// Shared has a gateway count in Redis, in the scope that is called as the cluster of its servers, and does what Check
// does.
func (g *Gateway) Shared(t *testing.T, redis *redisserver.Server, cluster string) {
	t.Helper()
	g.AwaitChosen(t)
	harness.Await(t, func() error {
		g.send(t, shortPrompt)
		if up := g.Sum(t, `^wasmcustom\.warmgate_redis_up$`); up != 1 {
			return fmt.Errorf("warmgate_redis_up is %v:\n%s", up, own(g.Page(t, "/stats/prometheus")))
		}
		return nil
	})
	g.settle = func() { g.awaitCounts(t, redis, redisclient.KeysOf(cluster)) }
	for range len(g.Servers) {
		g.hold(t, shortPrompt)
		g.settle()
	}
	g.release(t)
	g.settle()
	g.Check(t)
}

// awaitCounts waits until Redis counts at each server what that holds. The end of a request reaches Redis after its
// client.
func (g *Gateway) awaitCounts(t *testing.T, redis *redisserver.Server, k redisclient.Keys) {
	t.Helper()
	do := func(args ...any) resp.Value {
		v, err := redis.Do(args...)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	harness.Await(t, func() error {
		rows := map[string]int{}
		for field := range slices.Chunk(do("HGETALL", k.Rows).Array(), 2) {
			rows[field[0].String()] = field[1].Integer()
		}
		loads := redisclient.ParseLoads(do("GET", k.Table).Bytes(), rows)
		for _, s := range g.Servers {
			if load, ok := loads[s.Addr()]; !ok || load.Requests != int64(s.Held()) {
				return fmt.Errorf("Redis counts %v, %s holds %d", loads, s.Addr(), s.Held())
			}
		}
		return nil
	})
}
