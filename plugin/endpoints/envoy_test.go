package endpoints

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmgate/warmgate/internal/recent"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
)

// envoyConfig returns the configuration of a route with the given settings for Envoy.
func envoyConfig(t *testing.T, settings string) *config.Config {
	t.Helper()
	set, err := config.Parse([]byte(`{"lb_policy":"global_least_request","lb_config":{"envoy":`+settings+`}}`),
		config.Envoy)
	if err != nil {
		t.Fatal(err)
	}
	return set.Match("", "", "")
}

// Rules with different lists take turns on the same clusters; each keeps its views.
func TestFixedEndpoints(t *testing.T) {
	g := &Envoy{admin: newAdminPoller(nil, 1), static: recent.New[fixed, *lb.View](MaxClusters, ClusterAge)}
	one := envoyConfig(t, `{"endpoints":["10.0.0.1:8000"]}`)
	two := envoyConfig(t, `{"endpoints":["10.0.0.2:8000",{"address":"10.0.0.3:8000","weight":2}]}`)
	a, b, other := g.View(0, "llm", one), g.View(0, "llm", two), g.View(0, "other", one)
	if len(a.Endpoints) != 1 || len(b.Endpoints) != 2 || other.Cluster != "other" {
		t.Fatalf("views %+v, %+v, %+v", a, b, other)
	}
	if g.View(1, "llm", one) != a || g.View(1, "llm", two) != b || g.View(1, "other", one) != other {
		t.Error("views change when rules take turns")
	}
	for i := range 2 * MaxClusters {
		g.View(2, fmt.Sprint("made up ", i), one)
	}
	if n := g.static.Len(); n > MaxClusters {
		t.Errorf("%d views are kept", n)
	}
}

// A VM that serves requests may scrape also with Redis, wherever the endpoints come from.
func TestServingVMsMayScrape(t *testing.T) {
	for _, source := range []string{`{"endpoints":["10.0.0.1:8000"]}`, `{"admin_cluster":"admin"}`} {
		kv, vms := adminVMs(t, 2)
		g := &Envoy{
			admin: newAdminPoller(kv, 7), scraper: newScraper(kv, 7),
			static: recent.New[fixed, *lb.View](MaxClusters, ClusterAge),
		}
		learn(t, vms[0], time.Hour, clustersPage("healthy"))
		if g.Scrapes(time.Hour, true) {
			t.Errorf("%s: a VM without requests scrapes, and it may be the main thread's", source)
		}
		g.KnownView(time.Hour, "llm", envoyConfig(t, source)) // as for adopted servers, at ticks
		if g.Scrapes(time.Hour, true) {
			t.Errorf("%s: a VM without requests scrapes, once it has looked at endpoints", source)
		}
		g.Serves()
		if !g.Scrapes(time.Hour, true) {
			t.Errorf("%s: a VM with requests does not scrape", source)
		}
	}
}

// A cluster without endpoints is known as such where requests wait for the first one, and else unknown.
func TestClusterWithoutEndpoints(t *testing.T) {
	_, vms := adminVMs(t, 1)
	g, now := &Envoy{admin: vms[0]}, time.Hour
	c := envoyConfig(t, `{"admin_cluster":"admin"}`)
	fromZero := *c
	fromZero.Queue.FromZero, fromZero.Queue.MaxWait = true, time.Second
	learn(t, vms[0], now, clustersPage())
	g.Tick(now, nil)
	v := g.View(now, "llm", &fromZero)
	if v == nil || len(v.Endpoints) != 0 || g.View(now, "other", &fromZero) != nil {
		t.Errorf("where requests wait: %v", v)
	}
	if g.View(now, "llm", c) != nil || g.KnownView(now, "llm", &fromZero) != nil {
		t.Error("an empty view where none may be")
	}
	learn(t, vms[0], now+pollEvery, clustersPage())
	if g.Tick(now+pollEvery, nil); g.View(now+pollEvery, "llm", &fromZero) != v {
		t.Error("the view changes though the cluster does not")
	}
}

// What is known grows old and is renewed also while no configuration of this VM names a source.
func TestFollowsWithoutASource(t *testing.T) {
	_, vms := adminVMs(t, 2)
	g := &Envoy{admin: vms[1]}
	now := time.Hour
	g.Tick(now, nil)
	learn(t, vms[0], now, clustersPage("healthy"))
	c := envoyConfig(t, `{"admin_cluster":"admin"}`)
	if g.View(now, "llm", c) == nil {
		t.Fatal("no endpoints")
	}
	now += pollEvery
	learn(t, vms[0], now, clustersPage("/failed_active_hc"))
	g.Tick(now, nil)
	if got := g.View(now, "llm", c).Endpoints[0].State.String(); got != "unhealthy" {
		t.Errorf("the endpoint is %s", got)
	}
	now += staleAfter + 1
	g.Tick(now, nil)
	if g.View(now, "llm", c) != nil {
		t.Error("what is too old is still used")
	}
}
