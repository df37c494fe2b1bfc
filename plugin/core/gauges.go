package core

import (
	"strconv"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/stats"
)

// maxGauges is how many endpoints of a cluster have gauges at the same time.
const maxGauges = 64

// gauges is the part of a VM that sets the gauges. Every VM sets those of the clusters that it knows, to the same
// numbers.
type gauges struct {
	*host.Env
	configs  *configs
	clusters clusters
	stores   *stores
}

// set sets all gauges.
func (g *gauges) set(now time.Duration) {
	g.Stats.Store(g.stores.local.Stats)
	if n, err := g.stores.local.Owners(now); err == nil {
		g.Stats.Set(stats.Owners, uint64(n))
	}
	for _, cl := range g.clusters {
		g.setEjections(now, cl)
		g.setMetrics(now, cl)
		g.setLoads(cl)
		g.setPrompts(cl)
		g.setQueue(now, cl)
	}
	g.setBudgets(now)
	g.askRedis(now)
}

// clear sets the gauges of a cluster that is about to be forgotten to what they are at rest. Those of loads are there
// already.
func (g *gauges) clear(cl *cluster) {
	for _, stat := range []string{stats.Ejected, stats.Fresh, stats.Missing, stats.Retention, stats.Table} {
		if name := stats.OfCluster(stat, cl.name); g.Stats.Has(name) {
			g.Stats.Set(name, 0)
		}
	}
	for a := range cl.gauged {
		if name := stats.OfEndpoint(stats.PushLimit, cl.name, a); g.Stats.Has(name) {
			g.Stats.Set(name, 0)
		}
	}
	for target := range cl.targets {
		g.clearBudget(cl.name, target)
	}
	g.clearQueue(cl)
}

// setEjections counts the ejections that this VM has decided, and logs them. The gauge is there once one was known.
func (g *gauges) setEjections(now time.Duration, cl *cluster) {
	if n := cl.health.Ejections() - cl.ejected; n > 0 && g.Stats.CountIf(stats.OfCluster(stats.Ejections, cl.name), n) {
		cl.ejected += n
	}
	for _, e := range cl.health.TakeEjected() {
		g.GW.Log(host.Warn, "cluster="+cl.name+" "+e.Addr+" is ejected for "+e.For.String()+" after "+
			strconv.Itoa(e.Failures)+" failures")
	}
	n := cl.health.CountEjected(now)
	if name := stats.OfCluster(stats.Ejected, cl.name); n > 0 || g.Stats.Has(name) {
		g.Stats.SetIf(name, uint64(n))
	}
}

// setMetrics sets the gauges of what is known of the engines of a cluster.
func (g *gauges) setMetrics(now time.Duration, cl *cluster) {
	if fresh, missing, needed := cl.metrics.Count(now, g.Kind); needed {
		g.Stats.SetIf(stats.OfCluster(stats.Fresh, cl.name), uint64(fresh))
		g.Stats.SetIf(stats.OfCluster(stats.Missing, cl.name), uint64(missing))
	}
}

// setLoads sets the gauges of one cluster's endpoints. Those of an endpoint that is no longer listed stay until nothing
// is in flight there any more.
func (g *gauges) setLoads(cl *cluster) {
	listed := map[string]bool{}
	for _, view := range cl.views {
		for i := range view.Endpoints {
			addr := view.Endpoints[i].Addr
			listed[addr] = true
			if len(cl.gauged) < maxGauges && g.Stats.Room(stats.OfEndpoint(stats.Inflight, cl.name, addr)) {
				cl.gauged[addr] = true
			}
		}
	}
	addrs := make([]string, 0, len(cl.gauged))
	for a := range cl.gauged {
		addrs = append(addrs, a)
	}
	loads, err := g.stores.local.Loads(cl.name, addrs, nil)
	if err != nil {
		return
	}
	for i, a := range addrs {
		g.Stats.Set(stats.OfEndpoint(stats.Inflight, cl.name, a), uint64(loads[i].Requests))
		// Once it is shown it is kept right, also when no configuration in force counts tokens any more.
		if name := stats.OfEndpoint(stats.Tokens, cl.name, a); cl.tokens || g.Stats.Has(name) {
			g.Stats.Set(name, uint64(loads[i].Tokens))
		}
		limit := int64(0)
		if cl.pending && listed[a] {
			limit, _ = cl.limits.Limit(a)
		}
		if name := stats.OfEndpoint(stats.PushLimit, cl.name, a); limit > 0 || g.Stats.Has(name) {
			g.Stats.SetIf(name, uint64(limit))
		}
		if !listed[a] && loads[i] == (lb.Load{}) {
			delete(cl.gauged, a)
		}
	}
}

// setPrompts sets the gauges of what is known of caches: to 0 once no prompt comes under a configuration in force.
func (g *gauges) setPrompts(cl *cluster) {
	p := &cl.prompts
	retention, losses := cl.caches.Retention()
	if losses > p.losses && g.Stats.CountIf(stats.OfCluster(stats.Losses, cl.name), losses-p.losses) {
		p.losses = losses
	}
	if p.plugin == nil {
		return
	}
	percent, known := p.share(p.view)
	if !g.configs.contains(p.plugin) {
		p.plugin, retention, percent = nil, 0, 0
	}
	g.Stats.SetIf(stats.OfCluster(stats.Retention, cl.name), uint64(retention/time.Second))
	if known {
		g.Stats.SetIf(stats.OfCluster(stats.Table, cl.name), percent)
	}
	if known && percent < 100 && p.plugin != nil && !p.plugin.warned[cl.name] {
		p.plugin.warned[cl.name] = true
		_, key := indexBlocks(p.cfg)
		g.GW.Log(host.Warn, "cluster="+cl.name+" the prefix index has room for "+strconv.FormatUint(percent, 10)+
			" % of what the endpoints' KV caches hold: raise lb_config.prefix."+key)
	}
}
