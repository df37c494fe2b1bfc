package stores

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/process"
	"github.com/warmgate/warmgate/plugin/process/processtest"
	"github.com/warmgate/warmgate/plugin/stats"
	"github.com/warmgate/warmgate/redisclient"
)

// fakeGateway is a gateway as far as stores need one.
type fakeGateway struct {
	host.Gateway
	kv     *processtest.KV
	random uint64
	counts map[string]int64 // of statistics, by name
	names  []string         // of these, by number
}

func (g *fakeGateway) KV() lb.KV                               { return g.kv }
func (g *fakeGateway) Now() time.Duration                      { return time.Hour }
func (g *fakeGateway) Log(host.Level, string)                  {}
func (g *fakeGateway) RedisLink(*config.Config) host.RedisLink { return fakeLink{} }

func (g *fakeGateway) Random() uint64 {
	g.random += 0x9e3779b97f4a7c15
	return g.random
}

func (g *fakeGateway) Counter(name string) uint32 {
	g.names = append(g.names, name)
	return uint32(len(g.names) - 1)
}

func (g *fakeGateway) Gauge(name string) uint32     { return g.Counter(name) }
func (g *fakeGateway) Histogram(name string) uint32 { return g.Counter(name) }
func (g *fakeGateway) Add(id uint32, n int64)       { g.counts[g.names[id]] += n }
func (g *fakeGateway) Set(id uint32, n uint64)      { g.counts[g.names[id]] = int64(n) }

type fakeLink struct{ host.RedisLink }

func (fakeLink) Connect(time.Duration, config.Redis) {}

// startStores returns the stores of a VM, and its gateway.
func startStores(t *testing.T) (*Stores, *fakeGateway) {
	t.Helper()
	g := &fakeGateway{kv: &processtest.KV{Cells: map[string]processtest.Cell{}}, counts: map[string]int64{}}
	if err := process.Prepare(g.kv); err != nil {
		t.Fatal(err)
	}
	return New(&host.Env{GW: g, Stats: stats.New(g)}), g
}

// The owners of one VM are known by its own number, and no number is used twice at a time.
func TestOwnersOfAVM(t *testing.T) {
	s, _ := startStores(t)
	used := map[uint64]bool{s.Owner: true}
	for i := range 300 {
		owner := s.newOwner()
		if used[owner] || i < ownersOfVM-2 && LocalOwner(owner) != s.Owner {
			t.Fatalf("store %d has the owner %x, the VM is %x", i, owner, s.Owner)
		}
		used[owner] = true
		s.InRedis[redisTarget{within: time.Duration(i)}] = &Redis{Owner: owner}
	}
}

// Whatever happens to Redis, every fallback is counted under a documented cause.
func TestFallbackCauses(t *testing.T) {
	s, g := startStores(t)
	c := &config.Config{}
	c.Redis.Cluster = "redis"
	r := s.connectTo(time.Hour, c)
	r.fallback.OnFallback(lb.ErrRemoteDown)
	r.fallback.OnFallback(redisclient.ErrTimeout)
	for _, cause := range []string{"breaker_open", "timeout"} {
		if g.counts[statname.With(stats.Fallbacks, "cause", cause)] != 1 {
			t.Errorf("%s is not counted: %v", cause, g.counts)
		}
	}
}
