package layouts

import (
	"slices"
	"testing"

	"github.com/warmgate/warmgate/e2e/freeport"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/redisserver"
)

// TestLayouts runs every layout on the default Envoy.
func TestLayouts(t *testing.T) { runLayouts(t, harness.DefaultVersion) }

// TestLayoutsOldest runs them on the oldest Envoy that is supported.
func TestLayoutsOldest(t *testing.T) { runLayouts(t, harness.OldestVersion) }

// TestLayoutsBetween runs them on releases between these.
func TestLayoutsBetween(t *testing.T) {
	for _, version := range harness.BetweenT(t) {
		t.Run(version, func(t *testing.T) { runLayouts(t, version) })
	}
}

// pluginConfig has a rule for each of the host names.
const pluginConfig = `{"lb_type":"endpoint","lb_policy":"global_least_request","lb_config":{` + common + `},"_rules_":[
	{"_match_domain_":["` + byTokens + `"],"lb_policy":"global_least_request","lb_config":{
		"unit":"tokens","body_timeout":"60s",` + common + `}},
	{"_match_domain_":["` + inRedis + `"],"lb_policy":"global_least_request","lb_config":{
		"reserve_timeout":"10s",` + redis + `}}]}`

const (
	common = `"debug_headers":true,"health":{"slow_start":0},
		"envoy":{"admin_cluster":"warmgate-admin","poll_interval":"100ms"}`
	redis = `"debug_headers":true,"health":{"slow_start":0},
		"envoy":{"admin_cluster":"warmgate-admin","poll_interval":"100ms","redis_cluster":"warmgate-redis"}`
)

func runLayouts(t *testing.T, version string) {
	t.Parallel()
	f := newFleet(t)
	list := slices.Concat(protocolLayouts, clusterLayouts, filterLayouts(), retryLayouts, internalLayouts)
	port, err := freeport.Get()
	if err != nil {
		t.Fatal(err)
	}
	server := redisserver.StartT(t, redisserver.Options{})
	l := newLab(harness.StartT(t, harness.Options{
		Version: version, Config: pluginConfig, Redis: server.Addr(), Endpoints: endpoints(f.plain),
		Edit: render(list, f, port, extraClusters(t, f)),
	}), f)
	for _, layout := range list {
		t.Run(layout.name, func(t *testing.T) {
			if layout.check == nil {
				l.balances(t, layout.name, size, query{})
				return
			}
			layout.check(t, l, layout.name)
		})
	}
	t.Run("every lease has come back", func(t *testing.T) { l.g.DrainedT(t) })
	t.Run("hot restart", func(t *testing.T) { hotRestart(t, l) })
}

func endpoints(addrs []string) (list []harness.Endpoint) {
	for _, addr := range addrs {
		list = append(list, harness.Endpoint{Addr: addr})
	}
	return list
}
