package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/faultproxy"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/e2e/vllmsim"
	"github.com/warmgate/warmgate/redisclient"
)

// place is one gateway and the model servers behind it, or two and Redis, to which each gateway has a way of its own.
type place struct {
	site    *audit.Site
	redis   *redisserver.Server  // the one that holds the counts; of a cluster, the first; nil without Redis
	cluster *redisserver.Cluster // nil for a single server
	ways    []*faultproxy.Proxy  // one for each gateway
	beside  *vllmsim.Server      // of another cluster, nil with Redis
	world   *world               // of which site is the first region, nil for one region
	usual   string               // configuration of the plugin while nothing is broken
}

// scope is what the gateways count in: the cluster of the model servers.
const scope = "llm"

// redisConfig is the plugin's; patient waits for Redis even when a thousand requests arrive at once on two CPUs.
const (
	redisConfig = `{"lb_type":"endpoint","lb_policy":"global_least_request","lb_config":{` + common + `}}`
	patient     = `{"lb_type":"endpoint","lb_policy":"global_least_request","lb_config":{"reserve_timeout":"2s",` + common + `}}`
	common      = `"debug_headers":true,"envoy":{"admin_cluster":"warmgate-admin","redis_cluster":"warmgate-redis"}`
)

// slowLoading makes loading slow for the server's data in the scene "loading"; the other scenes leave it no data.
var slowLoading = []string{"key-load-delay 100000", "rdbcompression no"}

func openPlace(ctx context.Context, s settings, at kind) (*place, error) {
	p := &place{}
	if at == regional {
		return p, p.openWorld(ctx, s)
	}
	p.usual = audit.Config()
	o := audit.Options{Servers: s.servers, Workers: s.workers, Version: s.version}
	var err error
	if at == shipped || at == trapped || at == among {
		p.beside = vllmsim.New(vllmsim.Config{Instant: true})
		if err := p.beside.Start("127.0.0.1:0"); err != nil {
			return nil, err
		}
		o.Edit = addBeside(p.beside.Addr())
	}
	switch at {
	case trapped:
		o.Module, err = harness.Wasm(ctx, harness.HostEnvoyChaos)
	case among:
		p.usual = choosing(leastBusy, inside)
		err = addSites(&o)
		o.Config = p.usual
	case single, clustered:
		o.Config = redisConfig
		o.Redis, err = p.startRedis(ctx, s.redis, at == clustered)
	}
	if err == nil {
		p.site, err = audit.Open(ctx, o)
	}
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	if p.redis != nil {
		p.site.Shared = p.counts
	}
	return p, nil
}

// startRedis returns the addresses at which the two gateways find Redis.
func (p *place) startRedis(ctx context.Context, version string, clustered bool) (addrs []string, err error) {
	o := redisserver.Options{Version: version, Config: slowLoading}
	if clustered {
		if p.cluster, err = redisserver.StartCluster(ctx, 3, o); err != nil {
			return nil, err
		}
		p.redis = p.cluster.Servers()[0]
	} else if p.redis, err = redisserver.Start(ctx, o); err != nil {
		return nil, err
	}
	for range 2 {
		way, err := faultproxy.Start(ctx, p.redis.Addr())
		if err != nil {
			return nil, err
		}
		p.ways = append(p.ways, way)
		addrs = append(addrs, way.Addr())
	}
	return addrs, nil
}

func (p *place) close() error {
	var errs []error
	switch {
	case p.world != nil:
		errs = append(errs, p.world.close())
	case p.site != nil:
		errs = append(errs, p.site.Close())
	}
	if p.beside != nil {
		errs = append(errs, p.beside.Close())
	}
	for _, w := range p.ways {
		w.Stop()
	}
	switch {
	case p.cluster != nil:
		errs = append(errs, p.cluster.Stop())
	case p.redis != nil:
		errs = append(errs, p.redis.Stop())
	}
	return errors.Join(errs...)
}

// home returns the server that has the counts.
func (p *place) home() *redisserver.Server {
	if p.cluster == nil {
		return p.redis
	}
	return p.cluster.Servers()[p.cluster.Owner(redisserver.Slot(redisclient.KeysOf(scope).Table))]
}

// counts reads totals and leases.
func (p *place) counts() (totals, leases map[string]int64, err error) {
	k := redisclient.KeysOf(scope)
	home := p.home()
	table, err := home.Do("GET", k.Table)
	if err != nil {
		return nil, nil, err
	}
	fields, err := home.Do("HGETALL", k.Rows)
	if err != nil {
		return nil, nil, err
	}
	rows, addrs := map[string]int{}, map[int]string{}
	for f := range slices.Chunk(fields.Array(), 2) {
		if f[0].String() == "" { // the spare rows
			continue
		}
		rows[f[0].String()] = f[1].Integer()
		addrs[f[1].Integer()] = f[0].String()
	}
	totals = map[string]int64{}
	for addr, l := range redisclient.ParseLoads(table.Bytes(), rows) {
		totals[addr] = l.Requests
	}
	leases, err = countLeases(home, k.Leases, addrs)
	return totals, leases, err
}

// countLeases returns how many leases all owners hold at each endpoint, given the endpoints by row.
func countLeases(home *redisserver.Server, prefix string, addrs map[int]string) (map[string]int64, error) {
	owners, err := home.Do("KEYS", prefix+"*")
	if err != nil {
		return nil, err
	}
	leases := map[string]int64{}
	for _, own := range owners.Array() {
		fields, err := home.Do("HGETALL", own.String())
		if err != nil {
			return nil, err
		}
		for f := range slices.Chunk(fields.Array(), 2) {
			if _, row, _, ok := redisclient.ParseLease(f[0].String(), f[1].Bytes()); ok {
				leases[addrs[row]]++
			}
		}
	}
	return leases, nil
}

// expires returns an error if a key of ours has no expiry.
func (p *place) expires() error {
	if p.redis == nil {
		return nil
	}
	keys, err := p.home().Do("KEYS", redisclient.KeyPrefix+"*")
	if err != nil {
		return err
	}
	for _, key := range keys.Array() {
		left, err := p.home().Do("PTTL", key.String())
		if err != nil {
			return err
		}
		if left.Integer() == -1 {
			return fmt.Errorf("the key %q never expires", key.String())
		}
	}
	return nil
}

// fallbacks returns how many reservations fell to the embedded store, by cause, and how many to native balancing.
func (p *place) fallbacks(ctx context.Context) (map[string]int, error) {
	if p.redis == nil {
		return nil, nil
	}
	return fallbacksOf(ctx, p.site.Gateways...)
}

var (
	fallbackCause  = regexp.MustCompile(`^wasmcustom\.warmgate_store_fallbacks_total;cause=(.*)$`)
	fallbackNative = regexp.MustCompile(`;reason=(store_error|panic)$`)
)

// fallbacksOf returns the same of some of the gateways.
func fallbacksOf(ctx context.Context, gateways ...*harness.Gateway) (map[string]int, error) {
	out := map[string]int{}
	for _, g := range gateways {
		stats, err := g.Stats(ctx, `^wasmcustom\.warmgate_(store_fallbacks_total|decisions_total)`)
		if err != nil {
			return nil, err
		}
		for name, n := range stats {
			if m := fallbackCause.FindStringSubmatch(name); m != nil {
				out[m[1]] += int(n)
			}
			if fallbackNative.MatchString(name) {
				out["native"] += int(n)
			}
		}
	}
	return out, nil
}

// heal undoes what a scene has broken and waits until the plugin balances again. Endpoints that were ejected may still
// be.
func (a *act) heal() error {
	switch {
	case a.place.redis != nil:
		return a.healRedis()
	case a.place.world != nil:
		return a.place.world.heal(a.ctx)
	}
	for _, srv := range a.site.Servers() {
		if a.site.Dead(srv) {
			if _, err := a.site.AddServer(srv.Addr()); err != nil {
				return err
			}
			continue
		}
		if err := srv.SetTuning(audit.ServerConfig().Tuning); err != nil {
			return err
		}
	}
	if err := a.site.Gateway.PushPlugin(a.ctx, a.place.usual); err != nil {
		return err
	}
	if err := a.site.Gateway.PushEndpoints(a.ctx, a.site.Endpoints()); err != nil {
		return err
	}
	return a.site.AwaitReason(a.ctx, "chosen")
}

// healTimeout bounds the wait for the gateways to count in Redis again.
const healTimeout = 30 * time.Second

// healRedis repairs Redis and the ways to it, and waits until both gateways count there again.
func (a *act) healRedis() error {
	if err := pass(a); err != nil {
		return err
	}
	for i := range a.site.Gateways {
		if err := a.await(fmt.Sprintf("gateway %d does not count in Redis again", i), func() (bool, error) {
			return a.place.counting(a.ctx, i)
		}); err != nil {
			return err
		}
	}
	return nil
}

// await waits until check returns true.
func (a *act) await(what string, check func() (bool, error)) error {
	err := a.until(healTimeout, func() error {
		ok, err := check()
		if err == nil && !ok {
			err = errors.New("it is not so yet")
		}
		return err
	})
	if err != nil {
		err = fmt.Errorf("%s: %w", what, err)
	}
	return err
}

// counting reports whether a gateway counts in Redis: requests on all its workers, and none of them falls back.
func (p *place) counting(ctx context.Context, i int) (bool, error) {
	before, err := p.fallbacks(ctx)
	if err != nil {
		return false, err
	}
	for range 8 * p.site.Workers {
		if _, err := pulse(ctx, p.site.Gateways[i].URL(), false); err != nil {
			return false, err
		}
	}
	after, err := p.fallbacks(ctx)
	return len(minus(after, before)) == 0, err
}
