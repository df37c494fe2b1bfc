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
	"github.com/warmgate/warmgate/redisclient"
)

// place is two gateways, the model servers behind them, and Redis, to which each gateway has a way of its own.
type place struct {
	site    *audit.Site
	redis   *redisserver.Server  // the one that holds the counts; of a cluster, the first
	cluster *redisserver.Cluster // nil for a single server
	ways    []*faultproxy.Proxy  // one for each gateway
}

// scope is what the gateways count in: the cluster of the model servers.
const scope = "llm"

// config is the plugin's; patient waits for Redis even when a thousand requests arrive at once on two CPUs.
const (
	config  = `{"lb_type":"endpoint","lb_policy":"global_least_request","lb_config":{` + common + `}}`
	patient = `{"lb_type":"endpoint","lb_policy":"global_least_request","lb_config":{"reserve_timeout":"2s",` + common + `}}`
	common  = `"debug_headers":true,"envoy":{"admin_cluster":"warmgate-admin","redis_cluster":"warmgate-redis"}`
)

// slowLoading makes the server take a while for the data that the scene "loading" leaves it; others leave none.
var slowLoading = []string{"key-load-delay 100000", "rdbcompression no"}

func openPlace(ctx context.Context, s settings, clustered bool) (*place, error) {
	p := &place{}
	var err error
	o := redisserver.Options{Version: s.version, Config: slowLoading}
	if clustered {
		if p.cluster, err = redisserver.StartCluster(ctx, 3, o); err != nil {
			return nil, err
		}
		p.redis = p.cluster.Servers()[0]
	} else if p.redis, err = redisserver.Start(ctx, o); err != nil {
		return nil, err
	}
	var addrs []string
	for range gateways {
		way, err := faultproxy.Start(ctx, "tcp", p.redis.Addr())
		if err != nil {
			return nil, errors.Join(err, p.close())
		}
		p.ways = append(p.ways, way)
		addrs = append(addrs, way.Addr())
	}
	p.site, err = audit.Open(ctx, audit.Options{
		Servers: s.servers, Workers: s.workers, Redis: addrs,
		Config: config,
	})
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	p.site.Shared = p.counts
	return p, nil
}

func (p *place) close() error {
	var errs []error
	if p.site != nil {
		errs = append(errs, p.site.Close())
	}
	for _, w := range p.ways {
		w.Stop()
	}
	if p.cluster != nil {
		return errors.Join(append(errs, p.cluster.Stop())...)
	}
	return errors.Join(append(errs, p.redis.Stop())...)
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
	totals, leases = map[string]int64{}, map[string]int64{}
	for addr, l := range redisclient.ParseLoads(table.Bytes(), rows) {
		totals[addr] = l.Requests
	}
	owners, err := home.Do("KEYS", k.Leases+"*")
	if err != nil {
		return nil, nil, err
	}
	for _, own := range owners.Array() {
		fields, err := home.Do("HGETALL", own.String())
		if err != nil {
			return nil, nil, err
		}
		for f := range slices.Chunk(fields.Array(), 2) {
			if _, row, _, ok := redisclient.ParseLease(f[0].String(), f[1].Bytes()); ok {
				leases[addrs[row]]++
			}
		}
	}
	return totals, leases, nil
}

// expires makes sure that no key of ours stays for ever.
func (p *place) expires(context.Context) error {
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
	return fallbacksOf(ctx, p.site.Gateways...)
}

// fallbacksOf returns the same of some of the gateways.
func fallbacksOf(ctx context.Context, gateways ...*harness.Gateway) (map[string]int, error) {
	out := map[string]int{}
	cause := regexp.MustCompile(`^wasmcustom\.warmgate_store_fallbacks_total;cause=(.*)$`)
	for _, g := range gateways {
		stats, err := g.Stats(ctx, `^wasmcustom\.warmgate_(store_fallbacks_total|decisions_total)`)
		if err != nil {
			return nil, err
		}
		for name, n := range stats {
			if m := cause.FindStringSubmatch(name); m != nil {
				out[m[1]] += int(n)
			}
			if regexp.MustCompile(`;reason=(store_error|panic)$`).MatchString(name) {
				out["native"] += int(n)
			}
		}
	}
	return out, nil
}

// healTimeout bounds the wait for the gateways to count in Redis again.
const healTimeout = 30 * time.Second

// heal mends Redis and the ways to it, and waits until both gateways count there again.
func (a *act) heal() error {
	p := a.place
	for _, w := range p.ways {
		if err := w.Set(faultproxy.Pass()); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(a.ctx, healTimeout)
	defer cancel()
	for i := range p.site.Gateways {
		for {
			up, err := p.counting(ctx, i)
			if err == nil && up {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("gateway %d does not count in Redis again: %w", i, errors.Join(ctx.Err(), err))
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	return nil
}

// counting says whether a gateway counts in Redis: requests on all its workers, and none of them falls back.
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
