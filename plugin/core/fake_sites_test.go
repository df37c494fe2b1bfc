package core

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/memstore"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/discovery"
	"github.com/warmgate/warmgate/plugin/stores"
)

// siteView returns the view of one of several clusters, the same one as long as it is the same.
func (p *fakeProcess) siteView(cluster string) *lb.View {
	var list []lb.Endpoint
	for _, i := range p.sites[cluster] {
		list = append(list, p.endpoints[i].Endpoint)
	}
	if len(list) == 0 {
		return nil
	}
	if v := p.known[cluster]; v == nil || !slices.Equal(v.Endpoints, list) {
		p.known[cluster] = &lb.View{Cluster: cluster, Endpoints: list}
	}
	return p.known[cluster]
}

// fakeBreakers are circuit breakers, by cluster, nil for none, and how often they were looked at.
type fakeBreakers struct {
	breakers map[string]discovery.Breaker
	looks    uint32
}

// Breakers implements Gateway.
func (g fakeGateway) Breakers(*config.Config) (map[string]discovery.Breaker, uint32) {
	g.call("Breakers")
	return g.breakers, g.looks
}

// Serves implements Gateway.
func (g fakeGateway) Serves() {
	if g.inside == g.main.vm {
		g.t.Error("the main thread serves requests")
	}
}

// KnownView implements Gateway.
func (g fakeGateway) KnownView(_ time.Duration, cluster string, _ *config.Config) *lb.View {
	g.call("KnownView")
	if g.unseen {
		return nil
	}
	return g.siteView(cluster)
}

// counted returns how many requests and tasks are counted in a scope.
func (d *fakeDriver) counted(scope, name string) int64 {
	d.t.Helper()
	loads, err := memstore.New(d.kv, 1, stores.LeaseTTL).Loads(scope, []string{name}, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	return loads[0].Requests
}
