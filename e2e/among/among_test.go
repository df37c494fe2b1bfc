package among

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/redisserver"
)

const source = `"envoy":{"admin_cluster":"warmgate-admin","poll_interval":"100ms"},"debug_headers":true`

// choosing returns a configuration that chooses among the sites.
func choosing(members string) string {
	return `{"lb_type":"cluster","lb_policy":"cluster_metrics","lb_config":{"mode":"LeastBusy",` +
		`"service_list":["llm-a","llm-b"],"health":{"slow_start":0,"ejection_time":"1s"},` + members + source + `}}`
}

const inside = `"endpoint":{"lb_policy":"global_least_request","lb_config":{"health":{"slow_start":0}}},`

// TestShippedSites runs the shipped files as they are: requests go to the sites, and no server sees by which header.
func TestShippedSites(t *testing.T) {
	for _, version := range versions {
		text := string(harness.ReadT(t, "envoy-config/warmgate-clusters.yaml"))
		_, config, _ := strings.Cut(text, "value: |\n")
		l := newLab(t, harness.Options{Version: version, Config: config}, nil)
		harness.Await(t, func() error {
			l.send()
			return nil
		})
		to := l.shares(20, 0)
		if to["llm-a"]+to["llm-b"] != 20 {
			t.Errorf("%s: %v", version, to)
		}
	}
}

// TestLeastBusyCluster holds requests at two workers: they are spread over both sites, and over the servers inside, to
// within one, whatever clients write into the headers that carry choices.
func TestLeastBusyCluster(t *testing.T) {
	for _, version := range versions {
		for _, nested := range []string{"", inside} {
			l := newLab(t, harness.Options{Version: version, Config: choosing(nested)}, nil)
			l.knows(func(a *harness.Answer) bool {
				return a.Header.Get("x-warmgate-cluster") == a.Header.Get("x-site") && a.Reason() == "chosen" &&
					(nested == "" || a.Host() == a.Header.Get("x-server"))
			})
			l.hold(12, targetHeader+": llm-a", "x-warmgate-session: MTI3LjAuMC4xOjE=")
			if a, b := l.a.held(), l.b.held(); a != 6 || b != 6 {
				t.Errorf("%s %q: %d and %d held", version, nested, a, b)
			}
			for _, st := range []*site{l.a, l.b} {
				for _, s := range st.servers {
					if n := s.held.Load(); nested != "" && n != 3 {
						t.Errorf("%s: %d held at a server of %s", version, n, st.name)
					}
				}
			}
			l.let()
			l.DrainedT(t)
		}
	}
}

// TestForgedCluster has clients name clusters while the plugin chooses, falls back, is switched off, is not there, or
// cannot be loaded: what they write never decides, with the files for stock Envoy and with those for Higress.
func TestForgedCluster(t *testing.T) {
	for _, version := range versions {
		for _, higress := range []bool{false, true} {
			l := &lab{t: t, higress: higress}
			l.start(harness.Options{Version: version, Config: choosing(inside)})
			l.knows(func(a *harness.Answer) bool {
				return a.Header.Get("x-warmgate-cluster") == a.Header.Get("x-site")
			})
			l.hold(4, targetHeader+": llm-a")
			if a, b := l.a.held(), l.b.held(); a != 2 || b != 2 {
				t.Errorf("%s: %d and %d held", version, a, b)
			}
			l.let()
			if err := l.PushPlugin(t.Context(), `{"enabled":false}`); err != nil {
				t.Fatal(err)
			}
			l.ownServes("switched off")
			if err := l.PushPlugin(t.Context(), choosing(`"shadow":true,`)); err != nil {
				t.Fatal(err)
			}
			l.ownServes("shadow")
			if err := l.PushNoPlugin(t.Context()); err != nil {
				t.Fatal(err)
			}
			l.ownServes("no plugin")
		}
	}
}

// TestForgedClusterWithoutModule is the same where there has never been a plugin, since its module is none.
func TestForgedClusterWithoutModule(t *testing.T) {
	module := filepath.Join(t.TempDir(), "module.wasm")
	if err := os.WriteFile(module, []byte("no module"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, version := range versions {
		for _, higress := range []bool{false, true} {
			l := &lab{t: t, higress: higress}
			l.start(harness.Options{Version: version, Module: module, Config: choosing("")})
			l.ownServes("no module")
		}
	}
}

// ownServes has clients name clusters while the route's own is to serve.
func (l *lab) ownServes(what string) {
	l.t.Helper()
	for _, name := range []string{"llm-a", "warmgate-admin", "nowhere", ""} {
		a := l.send(targetHeader + ": " + name)
		if a.Status != 200 || a.Header.Get("x-site") != "llm" {
			l.t.Errorf("%s, higress: %t, %q: %d from %q", what, l.higress, name, a.Status, a.Header.Get("x-site"))
		}
	}
}

// TestFailingCluster has one site fail everything: it is left out, and gets requests again after it has recovered. So
// does one whose servers are unhealthy; while all are, the route's own cluster serves.
func TestFailingCluster(t *testing.T) {
	for _, version := range versions {
		l := newLab(t, harness.Options{Version: version, Config: choosing("")}, nil)
		both := func(a *harness.Answer) bool { return a.Header.Get("x-warmgate-cluster") == a.Header.Get("x-site") }
		l.knows(both)
		l.b.set(func(s *server) { s.fails.Store(true) })
		l.shares(60, 0)
		if n := l.shares(50, 0)[l.b.name]; n > 5 {
			t.Errorf("%s: %d of 50 requests went to the site that fails", version, n)
		}
		l.b.set(func(s *server) { s.fails.Store(false) })
		if to := l.shares(400, 25*time.Millisecond); to[l.b.name] == 0 {
			t.Errorf("%s: within ten seconds after its recovery: %v", version, to)
		}
		l.b.set(func(s *server) { s.sick.Store(true) })
		l.knows(func(a *harness.Answer) bool { return a.Header.Get("x-site") == l.a.name })
		l.a.set(func(s *server) { s.sick.Store(true) })
		l.knows(func(a *harness.Answer) bool {
			return a.Header.Get("x-site") == l.own.name && a.Reason() == "no_cluster_available"
		})
		l.a.set(func(s *server) { s.sick.Store(false) })
		l.b.set(func(s *server) { s.sick.Store(false) })
		l.knows(both)
		l.DrainedT(t)
	}
}

// TestRetryInAnotherCluster chooses among aggregate clusters: a retry goes to the other site, and the lease with it.
func TestRetryInAnotherCluster(t *testing.T) {
	for _, version := range versions {
		config := strings.Replace(choosing(`"first_clusters":{"llm-a-first":"llm-a","llm-b-first":"llm-b"},`),
			`["llm-a","llm-b"]`, `["llm-a-first","llm-b-first"]`, 1)
		l := newLab(t, harness.Options{Version: version, Config: config}, nil)
		l.knows(func(a *harness.Answer) bool {
			return a.Header.Get("x-warmgate-cluster") == a.Header.Get("x-site")+"-first"
		})
		l.b.set(func(s *server) { s.fails.Store(true) })
		for range 20 {
			if a := l.send(); a.Status != 200 || a.Header.Get("x-site") != l.a.name {
				t.Errorf("%s: %d from %s", version, a.Status, a.Header.Get("x-site"))
			}
		}
		if n := l.SumT(t, `^wasmcustom\.warmgate_lease_moves_total$`); n == 0 {
			t.Errorf("%s: no lease has moved", version)
		}
		if n := l.SumT(t, `^wasmcustom\.warmgate_lease_strays_total$`); n != 0 {
			t.Errorf("%s: %v requests went astray", version, n)
		}
		l.DrainedT(t)
	}
}

// TestLeastBusyOverGateways has two gateways share their counts in Redis: what one holds in a site counts at the other.
func TestLeastBusyOverGateways(t *testing.T) {
	redis := redisserver.StartT(t, redisserver.Options{})
	for _, version := range versions {
		config := strings.Replace(choosing(inside), `"admin_cluster":"warmgate-admin"`,
			`"admin_cluster":"warmgate-admin","redis_cluster":"warmgate-redis"`, 1)
		config = strings.Replace(config, `"debug_headers"`, `"reserve_timeout":"10s","redis_scope":"`+version+
			`","debug_headers"`, 1)
		one := newLab(t, harness.Options{Version: version, Config: config, Redis: redis.Addr()}, nil)
		two := newLab(t, harness.Options{Version: version, Config: config, Redis: redis.Addr()}, one)
		for _, l := range []*lab{one, two} {
			l.knows(func(a *harness.Answer) bool {
				return a.Header.Get("x-warmgate-cluster") == a.Header.Get("x-site") &&
					a.Host() == a.Header.Get("x-server")
			})
		}
		for range 6 {
			one.hold(1)
			two.hold(1)
		}
		if a, b := one.a.held(), one.b.held(); a != 6 || b != 6 {
			t.Errorf("%s: %d and %d held", version, a, b)
		}
		one.let()
		one.DrainedT(t)
		two.DrainedT(t)
	}
}
