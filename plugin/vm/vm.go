package vm

import (
	"time"

	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/plugin/admission"
	"github.com/warmgate/warmgate/plugin/clusters"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/endpoints"
	"github.com/warmgate/warmgate/plugin/engines"
	"github.com/warmgate/warmgate/plugin/gains"
	"github.com/warmgate/warmgate/plugin/gauges"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/inspect"
	"github.com/warmgate/warmgate/plugin/measured"
	"github.com/warmgate/warmgate/plugin/placement"
	"github.com/warmgate/warmgate/plugin/regions"
	"github.com/warmgate/warmgate/plugin/request"
	"github.com/warmgate/warmgate/plugin/stats"
	"github.com/warmgate/warmgate/plugin/stores"
	"github.com/warmgate/warmgate/plugin/views"
	"github.com/warmgate/warmgate/plugin/waiters"
)

// What build/wasm.sh says of the artifact when it links it.
var version, revision = "unknown", "unknown"

// VM is what lives as long as the gateway's VM. It outlives configurations, so that counts and health do. Most parts
// have a package of their own.
type VM struct {
	placement.Shared
	configs   *configs           // in force
	lastGood  *lastGood          // configurations in shared memory
	Ticks     *ticks             // timers and what is due
	Bodies    *request.Bodies    // requests whose bodies have not ended
	Regions   *regions.Regions   // probes of other regions, and answers to theirs
	API       *admission.API     // which admits requests that their senders send themselves
	Inspector *inspect.Inspector // shows what the gateway knows
	Gains     *gains.Gains       // says what was gained
	listener  *Plugin            // the newest configuration at the latest tick
	gauges    *gauges.Gauges     // what the statistics show
	targets   targetTimes        // those with budgets
	Duplicate bool               // the plugin was found twice in one filter chain
	Line      []byte             // memory for lines of the access log
	Fields    []measured.Field   // memory for those of a request
	Measured  measured.Request   // memory for what is known of a request that is over
}

// New returns the state of a VM in a gateway of the given kind.
func New(gw host.Gateway, kind config.Host) *VM {
	e := &host.Env{GW: gw, Kind: kind, Stats: stats.New(gw.Metrics())}
	v := &VM{configs: &configs{}, targets: targetTimes{}}
	v.lastGood = &lastGood{Env: e, turns: map[string]uint64{}}
	v.Env, v.Clusters, v.Prompts = e, clusters.Known{}, request.NewPrompts()
	v.Bodies = request.NewBodies(e, v.Prompts)
	v.Ticks = &ticks{Env: e, newest: v.configs.newestTicker}
	v.WakeAt = v.Ticks.wakeAt
	v.Stores = stores.New(e)
	v.Views = views.New(e, v.Stores, v.Clusters)
	v.Waiters = waiters.New(e, v.Stores, v.Views)
	v.Scraping = engines.NewScraping(e, v.configs.allParts, v.Clusters, v.Stores)
	v.Lists = v.Scraping.NewLists()
	v.Regions = regions.New(e, v.configs.allRegions, v.Clusters, v.Stores, v.Views, v.Scraping, v.WakeAt)
	v.API = admission.New(e, v, v.WakeAt, views.BudgetScope)
	v.Inspector = inspect.New(e, v, v.Clusters, v.Stores, v.Views, v.Regions, v.WakeAt, version)
	v.Gains = gains.New(e, v.Clusters, v.Stores.Owner)
	v.gauges = gauges.New(e, v.configs.allParts, v.Clusters, v.Stores)
	return v
}

// tick does what is due. Several configurations in one VM tick it more often than needed, and so do deadlines.
func (v *VM) tick(p *Plugin) {
	now := v.ReadClock()
	v.Stores.Postpone(v.Ticks.late(&p.Ticker, now))
	next := v.Stores.Expire(now)
	v.Ticks.rearm(&p.Ticker, now, stores.Earlier(next, v.Waiters.Poll(now)))
	p.dropIfDone()
	v.listen()
	if v.Serves && len(p.added) > 0 { // the main thread's VM would count as one that serves requests
		v.Guard("targets that are added again", func() { v.reopen(now, p) }, nil)
	}
	if !v.Ticks.due(now) {
		return
	}
	v.GW.Tick(now, v.configs.adminSource)
	v.Guard("circuit breakers", func() { v.Views.Tick(now) }, nil)
	v.Stores.Local.Flush(now)
	v.Clusters.ExchangeEjections(now, v.GW.KV())
	v.Clusters.ExchangeFacts(now, v.GW.KV())
	v.Bodies.Expire(now)
	v.Waiters.Refresh(now)
	v.Guard("the metrics of engines", func() {
		v.Scraping.Tick(now)
		v.Clusters.ExchangeShares(now, v.GW.KV())
	}, nil)
	v.Guard("push limits", func() { v.Clusters.ExchangeLimits(now, v.GW.KV()) }, nil)
	v.Guard("how fast endpoints are", func() { v.Clusters.ExchangePaces(now, v.GW.KV()) }, nil)
	v.Guard("the lists of models", func() { v.Lists.Tick(now) }, nil)
	v.Guard("other regions", func() { v.Regions.Tick(now) }, nil)
	v.Guard("the admission API", func() { v.API.Tick(now) }, nil)
	v.Guard("what the gateway shows", func() { v.Inspector.Tick(now) }, nil)
	v.Guard("requests for other regions", func() { v.Waiters.ForwardWaiting(v.Regions.HaveRoom) }, nil)
	if !v.Ticks.heartbeatDue(now) {
		return
	}
	v.Stores.Heartbeat(now, v.configs.parts)
	v.refreshLastGood()
	v.Guard("limits set at run time", func() { v.API.RefreshLimits(now) }, nil)
	v.Waiters.CountOwners(now)
	v.setInForce()
	v.gauges.Set(now)
	v.Guard("what was gained", func() { v.Gains.Tick(now) }, nil)
	v.Regions.Heartbeat(now)
	v.forgetClusters(now)
}

// Serve notes that the VM has requests: it is a worker's.
func (v *VM) Serve() {
	if !v.Serves {
		v.Serves = true
		v.GW.Serves()
	}
}

// setInForce says which build runs, and by which policies. The build is 1 while it has a configuration, 0 at the end of
// the last one, since the gateway shows the gauge after an upgrade, too. Other VMs of the same build set it to 1 again
// within a second.
func (v *VM) setInForce() {
	name := statname.With(stats.Build, "version", version, "revision", revision)
	v.Stats.Set(name, uint64(min(1, len(v.configs.inForce))))
	v.Stats.Policies(v.configs.policies())
	v.Stats.Unticked = len(v.configs.inForce) == 0
}

// wake looks after the requests that wait: other VMs have granted them something.
func (v *VM) wake(messages [][]byte) {
	now := v.ReadClock()
	if !v.Waiters.Hear(now, messages) {
		return
	}
	if next := v.Waiters.Poll(now); next > 0 {
		v.Ticks.wakeAt(now, next)
	}
}

// listen has this VM be woken in the name of the newest configuration. It is called at ticks: a VM that only tries a
// configuration has none, and registers nothing.
func (v *VM) listen() {
	if p := v.configs.newest(); p != nil && p != v.listener {
		v.listener = p
		v.Waiters.Listen(p.context, p.Set)
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
	for name, cl := range v.Clusters {
		if cl.Inflight == 0 && now-cl.UsedAt > endpoints.ClusterAge {
			v.gauges.Of(cl).Clear()
			delete(v.Clusters, name)
			continue
		}
		cl.KeepPolicies(inForce)
	}
}
