package core

import (
	"time"

	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/plugin/admission"
	"github.com/warmgate/warmgate/plugin/clusters"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/endpoints"
	"github.com/warmgate/warmgate/plugin/engines"
	"github.com/warmgate/warmgate/plugin/gauges"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/regions"
	"github.com/warmgate/warmgate/plugin/request"
	"github.com/warmgate/warmgate/plugin/stats"
	"github.com/warmgate/warmgate/plugin/stores"
	"github.com/warmgate/warmgate/plugin/views"
	"github.com/warmgate/warmgate/plugin/waiters"
)

// What build/wasm.sh says of the artifact when it links it.
var version, revision = "unknown", "unknown"

// VM is what lives as long as the gateway's VM. It outlives configurations, so that counts and health do. Each part has
// a file of its own.
type VM struct {
	*host.Env
	configs   *configs          // in force
	lastGood  *lastGood         // configurations in shared memory
	ticks     *ticks            // timers and what is due
	clusters  clusters.Known    // what is known of each cluster
	views     *views.Views      // what configurations choose among
	stores    *stores.Stores    // where requests are counted
	prompts   *request.Prompts  // how prompts are cut into blocks, and how long they typically are
	bodies    *request.Bodies   // requests whose bodies have not ended
	waiters   *waiters.Waiters  // requests that wait in a queue
	scraping  *engines.Scraping // metrics of engines
	lists     *engines.Lists    // of models that endpoints have
	regions   *regions.Regions  // probes of other regions, and answers to theirs
	tasks     *admissionCore    // what the admission API knows of the VM
	api       *admission.API    // which admits requests that their senders send themselves
	gauges    *gauges.Gauges    // what the statistics show
	placing   shared            // what all placements have in common
	listener  *Plugin           // the newest configuration at the latest tick
	duplicate bool              // the plugin was found twice in one filter chain
}

// NewVM returns the state of a VM in a gateway of the given kind.
func NewVM(gw host.Gateway, kind config.Host) *VM {
	e := &host.Env{GW: gw, Kind: kind, Stats: stats.New(gw.Metrics())}
	v := &VM{Env: e, configs: &configs{}, clusters: clusters.Known{}, prompts: request.NewPrompts()}
	v.bodies = request.NewBodies(e, v.prompts)
	v.lastGood = &lastGood{Env: e, turns: map[string]uint64{}}
	v.ticks = &ticks{Env: e, newest: v.configs.newestTicker}
	v.stores = stores.New(e)
	v.views = views.New(e, v.stores)
	v.waiters = waiters.New(e, v.stores, v.views)
	v.scraping = engines.NewScraping(e, v.configs.allParts, v.clusters, v.stores)
	v.lists = v.scraping.NewLists()
	v.regions = regions.New(e, v.configs.allRegions, v.clusters, v.stores, v.views, v.scraping, v.ticks.wakeAt)
	v.tasks = &admissionCore{
		gw: gw, views: v.views, clusters: v.clusters, wakeAt: v.ticks.wakeAt, tasks: v.stores.Tasks,
	}
	v.api = admission.New(e, v.tasks, views.BudgetScope)
	v.gauges = gauges.New(e, v.configs.allParts, v.clusters, v.stores)
	v.placing = shared{
		Env: e, clusters: v.clusters, views: v.views, stores: v.stores, waiters: v.waiters, scraping: v.scraping,
		lists: v.lists, gauges: v.gauges, prompts: v.prompts, wakeAt: v.ticks.wakeAt,
	}
	return v
}

// tick does what is due. Several configurations in one VM tick it more often than needed, and so do deadlines.
func (v *VM) tick(p *Plugin) {
	now := v.ReadClock()
	v.stores.Postpone(v.ticks.late(&p.ticker, now))
	next := v.stores.Expire(now)
	v.ticks.rearm(&p.ticker, now, stores.Earlier(next, v.waiters.Poll(now)))
	p.dropIfDone()
	v.listen()
	if !v.ticks.due(now) {
		return
	}
	v.GW.Tick(now, v.configs.adminSource)
	v.Guard("circuit breakers", func() { v.views.Tick(now) }, nil)
	v.stores.Local.Flush(now)
	v.clusters.ExchangeEjections(now, v.GW.KV())
	v.clusters.ExchangeFacts(now, v.GW.KV())
	v.bodies.Expire(now)
	v.waiters.Refresh(now)
	v.Guard("the metrics of engines", func() {
		v.scraping.Tick(now)
		v.clusters.ExchangeShares(now, v.GW.KV())
	}, nil)
	v.Guard("push limits", func() { v.clusters.ExchangeLimits(now, v.GW.KV()) }, nil)
	v.Guard("the lists of models", func() { v.lists.Tick(now) }, nil)
	v.Guard("other regions", func() { v.regions.Tick(now) }, nil)
	v.Guard("the admission API", func() { v.api.Tick(now) }, nil)
	v.Guard("requests for other regions", func() { v.waiters.ForwardWaiting(v.regions.HaveRoom) }, nil)
	if !v.ticks.heartbeatDue(now) {
		return
	}
	v.stores.Heartbeat(now, v.configs.parts)
	v.refreshLastGood()
	v.waiters.CountOwners(now)
	v.setBuild()
	v.gauges.Set(now)
	v.regions.Heartbeat(now)
	v.forgetClusters(now)
}

// serve notes that the VM has requests: it is a worker's.
func (v *VM) serve() {
	if !v.Serves {
		v.Serves = true
		v.GW.Serves()
	}
}

// setBuild says which build runs: 1 while it has a configuration, 0 at the end of the last one, since the gateway shows
// the gauge after an upgrade, too. Other VMs of the same build set it to 1 again within a second.
func (v *VM) setBuild() {
	name := statname.With(stats.Build, "version", version, "revision", revision)
	v.Stats.Set(name, uint64(min(1, len(v.configs.inForce))))
}

// wake looks after the requests that wait: other VMs have granted them something.
func (v *VM) wake(messages [][]byte) {
	now := v.ReadClock()
	if !v.waiters.Hear(now, messages) {
		return
	}
	if next := v.waiters.Poll(now); next > 0 {
		v.ticks.wakeAt(now, next)
	}
}

// listen has this VM be woken in the name of the newest configuration. It is called at ticks: a VM that only tries a
// configuration has none, and registers nothing.
func (v *VM) listen() {
	if p := v.configs.newest(); p != nil && p != v.listener {
		v.listener = p
		v.waiters.Listen(p.context, p.set)
	}
}

// forgetClusters drops the clusters that have not been used for long, and what belongs to configurations that are not
// in force any more. It follows a last setting of the gauges, which are at rest: a cluster with requests in flight is
// kept.
func (v *VM) forgetClusters(now time.Duration) {
	inForce := map[*config.Config]bool{}
	for _, c := range v.configs.parts {
		inForce[c] = true
	}
	for name, cl := range v.clusters {
		if cl.Inflight == 0 && now-cl.UsedAt > endpoints.ClusterAge {
			v.gauges.Of(cl).Clear()
			delete(v.clusters, name)
			continue
		}
		cl.KeepPolicies(inForce)
	}
}
