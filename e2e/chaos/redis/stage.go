package redis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/faultproxy"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/lab"
	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/redisclient"
)

// stage is two gateways, the model servers behind them, and Redis, to which each gateway has a way of its own.
type stage struct {
	site    *audit.Site
	server  *redisserver.Server  // the one that holds the counts; of a cluster, the first
	cluster *redisserver.Cluster // nil for a single server
	ways    []*faultproxy.Proxy  // one for each gateway
}

// scope is what the gateways count in: the cluster of the model servers.
const scope = "llm"

// usual is the plugin's configuration; patient waits for Redis even when a thousand requests arrive at once on two
// CPUs.
const (
	usual   = `{"lb_type":"endpoint","lb_policy":"global_least_request","lb_config":{` + common + `}}`
	patient = `{"lb_type":"endpoint","lb_policy":"global_least_request","lb_config":{"reserve_timeout":"2s",` + common + `}}`
	common  = `"debug_headers":true,"envoy":{"admin_cluster":"warmgate-admin","redis_cluster":"warmgate-redis"}`
)

// slowLoading makes loading slow for the server's data in the scene "loading"; the other scenes leave it no data.
var slowLoading = []string{"key-load-delay 100000", "rdbcompression no"}

// of returns the stage with scenes; how starts Redis.
func (s *stage) of(how func(context.Context, redisserver.Options), scenes ...lab.Scene) lab.Stage {
	return lab.Stage{
		Scenes: scenes, Heal: s.heal, Begin: s.begin, Close: s.close,
		Audit: func(*lab.Act) { s.expires() },
		Open: func(ctx context.Context, set *lab.Settings) *audit.Site {
			how(ctx, redisserver.Options{Version: set.Redis, Config: slowLoading})
			var addrs []string
			for range 2 {
				way := lab.Must(faultproxy.Start(ctx, s.server.Addr()))
				s.ways, addrs = append(s.ways, way), append(addrs, way.Addr())
			}
			s.site = set.Site(ctx, audit.Options{Config: usual, Redis: addrs})
			s.site.Shared = func() (totals, leases map[string]int64, err error) {
				err = lab.Try(func() { totals, leases = s.counts() })
				return totals, leases, err
			}
			return s.site
		},
	}
}

func (s *stage) startServer(ctx context.Context, o redisserver.Options) {
	s.server = lab.Must(redisserver.Start(ctx, o))
}

func (s *stage) startCluster(ctx context.Context, o redisserver.Options) {
	s.cluster = lab.Must(redisserver.StartCluster(ctx, 3, o))
	s.server = s.cluster.Servers()[0]
}

func (s *stage) close() error {
	var errs []error
	if s.site != nil {
		errs = append(errs, s.site.Close())
	}
	for _, w := range s.ways {
		w.Stop()
	}
	switch {
	case s.cluster != nil:
		errs = append(errs, s.cluster.Stop())
	case s.server != nil:
		errs = append(errs, s.server.Stop())
	}
	return errors.Join(errs...)
}

// home returns the server that has the counts.
func (s *stage) home() *redisserver.Server {
	if s.cluster == nil {
		return s.server
	}
	return s.cluster.Servers()[s.cluster.Owner(redisserver.Slot(redisclient.KeysOf(scope).Table))]
}

// counts reads totals and leases, each by endpoint.
func (s *stage) counts() (totals, leases map[string]int64) {
	k, home := redisclient.KeysOf(scope), s.home()
	table := lab.Must(home.Do("GET", k.Table))
	rows, addrs := map[string]int{}, map[int]string{}
	for f := range slices.Chunk(lab.Must(home.Do("HGETALL", k.Rows)).Array(), 2) {
		if f[0].String() == "" { // the spare rows
			continue
		}
		rows[f[0].String()] = f[1].Integer()
		addrs[f[1].Integer()] = f[0].String()
	}
	totals, leases = map[string]int64{}, map[string]int64{}
	for addr, l := range redisclient.ParseLoads(table.Bytes(), rows) {
		totals[addr] = l.Requests
	}
	for _, own := range lab.Must(home.Do("KEYS", k.Leases+"*")).Array() {
		for f := range slices.Chunk(lab.Must(home.Do("HGETALL", own.String())).Array(), 2) {
			if _, row, _, ok := redisclient.ParseLease(f[0].String(), f[1].Bytes()); ok {
				leases[addrs[row]]++
			}
		}
	}
	return totals, leases
}

// expires checks that each key of ours has an expiry.
func (s *stage) expires() {
	for _, key := range lab.Must(s.home().Do("KEYS", redisclient.KeyPrefix+"*")).Array() {
		left := lab.Must(s.home().Do("PTTL", key.String()))
		lab.FailIf(left.Integer() == -1, "the key %q never expires", key.String())
	}
}

// begin counts what falls back from Redis during a scene.
func (s *stage) begin(a *lab.Act) (end func()) {
	a.Result.RedisResult = &lab.RedisResult{}
	before := fallbacks(a.Ctx, a.Site.Gateways...)
	return func() {
		a.Result.Lost = a.Result.Excused
		a.Result.Fallbacks = minus(fallbacks(a.Ctx, a.Site.Gateways...), before)
	}
}

// minus returns the counts by which a is above b.
func minus(a, b map[string]int) map[string]int {
	out := maps.Clone(a)
	for k := range out {
		if out[k] -= b[k]; out[k] <= 0 {
			delete(out, k)
		}
	}
	return out
}

var (
	fallbackCause  = regexp.MustCompile(`^wasmcustom\.warmgate_store_fallbacks_total;cause=(.*)$`)
	fallbackNative = regexp.MustCompile(`;reason=(store_error|panic)$`)
)

// fallbacks returns how many reservations fell to the embedded store, by cause, and how many to native balancing.
func fallbacks(ctx context.Context, gateways ...*harness.Gateway) map[string]int {
	out := map[string]int{}
	for _, g := range gateways {
		for name, n := range lab.Must(g.Stats(ctx, `^wasmcustom\.warmgate_(store_fallbacks_total|decisions_total)`)) {
			if m := fallbackCause.FindStringSubmatch(name); m != nil {
				out[m[1]] += int(n)
			}
			if fallbackNative.MatchString(name) {
				out["native"] += int(n)
			}
		}
	}
	return out
}

// healTimeout bounds the wait for the gateways to count in Redis again.
const healTimeout = 30 * time.Second

// await waits until check, which what names, is not ended any more.
func await(a *lab.Act, what string, check func()) {
	lab.About(what, func() { a.Within(healTimeout, check) })
}

// heal repairs Redis and the ways to it, and waits until both gateways count there again: requests come to all their
// workers, and none of them falls back.
func (s *stage) heal(a *lab.Act) {
	s.pass(a)
	for i, g := range a.Site.Gateways {
		await(a, fmt.Sprintf("gateway %d does not count in Redis again", i), func() {
			before := fallbacks(a.Ctx, a.Site.Gateways...)
			for range 8 * a.Workers {
				a.Ask(g.URL()+audit.EchoPath, false, nil)
			}
			fell := minus(fallbacks(a.Ctx, a.Site.Gateways...), before)
			lab.FailIf(len(fell) > 0, "it falls back: %v", fell)
		})
	}
}
