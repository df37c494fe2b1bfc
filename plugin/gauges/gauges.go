// Package gauges sets the gauges of a VM: of clusters, their endpoints, queues, caches and budgets.
package gauges

import (
	"strconv"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/clusters"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/stats"
	"github.com/warmgate/warmgate/plugin/stores"
)

// Gauges is the part of a VM that sets the gauges. Every VM sets those of the clusters that it knows, to the same
// numbers.
type Gauges struct {
	*host.Env
	inForce  func() []*config.Config // the newest first
	clusters clusters.Known
	stores   *stores.Stores
}

// New returns the gauges of a VM. inForce returns the configurations in force, the newest first.
func New(e *host.Env, inForce func() []*config.Config, known clusters.Known, s *stores.Stores) *Gauges {
	return &Gauges{Env: e, inForce: inForce, clusters: known, stores: s}
}

// Set sets all gauges, and tells the gateway what was counted of requests.
func (g *Gauges) Set(now time.Duration) {
	g.Stats.Flush()
	g.Stats.Store(g.stores.Local.Stats)
	if n, err := g.stores.Local.Owners(now); err == nil {
		g.Stats.Set(stats.Owners, uint64(n))
	}
	for _, cl := range g.clusters {
		g.setEjections(now, cl)
		g.setMetrics(now, cl)
		g.Of(cl).Lacking(cl.Lacking(now))
		g.setLoads(cl)
		g.setPrompts(cl)
		g.setQueue(now, cl)
	}
	g.setBudgets(now)
	g.askRedis(now)
}

// Of returns the statistics of a cluster.
func (g *Gauges) Of(cl *clusters.Cluster) *stats.Cluster {
	if cl.Shown == nil {
		cl.Shown = stats.NewCluster(g.Stats, cl.Name)
	}
	return cl.Shown
}

// setEjections shows the ejections that this VM has decided, and logs them.
func (g *Gauges) setEjections(now time.Duration, cl *clusters.Cluster) {
	for _, e := range cl.Health.TakeEjected() {
		g.GW.Log(host.Warn, "cluster="+cl.Name+" "+e.Addr+" is ejected for "+e.For.String()+" after "+
			strconv.Itoa(e.Failures)+" failures")
	}
	g.Of(cl).Ejections(cl.Health.Ejections(), cl.Health.CountEjected(now))
}

// setMetrics sets the gauges of what is known of the engines of a cluster.
func (g *Gauges) setMetrics(now time.Duration, cl *clusters.Cluster) {
	if fresh, missing, needed := cl.Metrics.Count(now, g.Kind); needed {
		g.Of(cl).Engines(fresh, missing)
	}
}

// setLoads sets the gauges of one cluster's endpoints. Those of an endpoint that is no longer listed stay until nothing
// is in flight there any more.
func (g *Gauges) setLoads(cl *clusters.Cluster) {
	s, listed := g.Of(cl), map[string]bool{}
	for _, view := range cl.Views {
		for i := range view.Endpoints {
			addr := view.Endpoints[i].Addr
			listed[addr] = true
			s.Add(addr)
		}
	}
	addrs := s.Endpoints()
	loads, err := g.stores.Local.Loads(cl.Name, addrs, nil)
	if err != nil {
		return
	}
	for i, a := range addrs {
		limit := int64(0)
		if cl.Pending && listed[a] {
			limit, _ = cl.Limits.Limit(a)
		}
		s.Load(a, loads[i], cl.Tokens, limit)
		if !listed[a] && loads[i] == (lb.Load{}) {
			s.Remove(a)
		}
	}
}

// setPrompts sets the gauges of what is known of caches: to 0 once no prompt comes under a configuration in force.
func (g *Gauges) setPrompts(cl *clusters.Cluster) {
	p, s := &cl.Prompts, g.Of(cl)
	retention, losses := cl.Caches.Retention()
	s.Losses(losses)
	if p.User == nil {
		return
	}
	percent, known := p.Share(p.View)
	if !p.User.IsInForce() {
		p.User, retention, percent = nil, 0, 0
	}
	s.Caches(retention)
	if known {
		s.Table(percent)
	}
	if known && percent < 100 && p.User != nil && p.User.WarnsFirst(cl.Name) {
		_, key := clusters.IndexBlocks(p.Config)
		g.GW.Log(host.Warn, "cluster="+cl.Name+" the prefix index has room for "+strconv.FormatUint(percent, 10)+
			" % of what the endpoints' KV caches hold: raise lb_config.prefix."+key)
	}
}
