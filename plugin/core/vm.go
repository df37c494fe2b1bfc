package core

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/memstore"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/config"
)

const (
	// tickPeriod is how often a VM wakes up: the precision of deadlines.
	tickPeriod      = 100 * time.Millisecond
	heartbeatPeriod = time.Second
	// leaseTTL is how long an owner may be silent before its leases are returned. A worker that stands still for
	// longer does not serve either.
	leaseTTL = 5 * time.Second
)

// VM is what lives as long as the VM: the owner of its leases, the clusters it has seen, the requests it holds. It
// outlives configurations, so that counts and health do.
type VM struct {
	gw            Gateway
	stats         *stats
	store         *memstore.Store
	redis         map[redisTarget]*redisStore
	current       uint32              // the gateway's context that calls act on
	postponed     bool                // the last tick was late, and deadlines were moved for that
	inForce       []*Plugin           // configurations in force, the newest last
	turns         map[string]uint64   // turn of the past that this VM has last agreed with, by name of the plugin
	adminSource   *config.EnvoySource // where those say that endpoints are found
	clusters      map[string]*cluster
	duplicate     bool                      // the plugin was found twice in one filter chain
	waiting       map[*Stream]time.Duration // requests that wait for their body, and until when
	partial       map[*Stream]bodyProgress  // leases that count what has come of a body
	chainers      map[chainConfig]*prompt.Chainer
	models        models
	processSecret [16]byte // secret of this process
	lastID        lb.LeaseID
	kind          config.Host
	readers       *readers
	announced     map[metricsDemand]bool          // metrics that requests here need, as other VMs know
	needed        map[metricsDemand]time.Duration // metrics that requests here needed since that was last told
	announcedAt   time.Duration                   // when it was
	unannounced   bool                            // some of them were not needed before
	clock         time.Duration                   // as last read: see now
	lastTick      time.Duration
	lastHeartbeat time.Duration
}

// cluster is what one VM knows of a cluster.
type cluster struct {
	name       string
	views      map[uint64]*lb.View // the latest of each source
	health     *lb.Health
	caches     *lb.CacheTracker
	engines    *lb.Engines
	shares     *lb.RequestShares
	policies   map[*config.Config]lb.Policy
	gauges     map[string]bool // endpoints with gauges
	tokens     bool            // a configuration in force counts tokens
	guess      guess           // of that configuration
	prompts    promptStats     // for prefix_cache
	ejected    uint64          // ejections counted so far
	inflight   int             // requests of this VM in flight
	answering  map[string]int  // of those, by endpoint, whose response has begun
	requests   uint64          // requests of this VM so far, with unit: tokens
	usagesRead uint64          // answers to those whose usage was read
	usedAt     time.Duration

	demandedAt     time.Duration        // when metrics of its engines were last needed, 0 for never
	metricsConfig  *config.Config       // that needed them
	samplesVersion uint32               // version of the readings that its engines are from
	sampledAt      time.Duration        // when the latest of those was
	attemptedAt    time.Duration        // when a request last had them read, 0 for never
	targets        []string             // of those readings
	pageDigests    map[string]uint64    // digests of the pages that those are from, by address
	streams        map[*Stream]struct{} // requests that need them
}

// NewVM returns the state of a VM in a gateway of the given kind.
func NewVM(gw Gateway, host config.Host) *VM {
	v := &VM{
		gw: gw, stats: newStats(gw.Metrics()),
		redis: map[redisTarget]*redisStore{}, clusters: map[string]*cluster{}, waiting: map[*Stream]time.Duration{},
		partial:  map[*Stream]bodyProgress{},
		chainers: map[chainConfig]*prompt.Chainer{}, models: models{},
		turns: map[string]uint64{}, readers: newReaders(), needed: map[metricsDemand]time.Duration{}, announced: map[metricsDemand]bool{}, kind: host,
	}
	v.store = memstore.New(gw.KV(), gw.Random()|1, leaseTTL)
	return v
}

// Plugin is one configuration of the plugin in this VM.
type Plugin struct {
	vm             *VM
	set            *config.Set // nil: refused, with no good one before it
	name           string      // of the plugin
	refusedText    []byte      // of a configuration that was refused in part, else nil
	lastGoodDigest uint64      // digest of the past that its set is from
	context        uint32      // the gateway's
	period         time.Duration
	due            time.Duration   // when its next tick comes
	calls          int             // made in its name and not answered yet
	doneAt         time.Duration   // when the gateway was done with it, 0 before
	warned         map[string]bool // clusters whose table of prompts is too small
}

// configure reads a configuration. It returns false when the gateway should refuse it and go on with the one before.
func (v *VM) configure(name string, raw []byte, h config.Host) (*Plugin, bool) {
	if err := prepare(v.gw.KV()); err != nil {
		// Requests are still served: each will find the store unready and fall to native balancing.
		v.gw.Log(Error, err.Error())
	}
	v.processSecret = ownSecret(v.gw.KV(), v.gw.Random)
	got := v.accept(name, raw, h)
	if got.set == nil {
		v.stats.count(statConfigBad, 1)
		then := "every request is left to native balancing: "
		set, taken := v.lastGoodSet(name, raw, h)
		if set != nil || !taken {
			then = "the one before stays in force: "
		}
		v.gw.Log(Error, "configuration refused, "+then+got.err.Error())
		if !taken {
			return nil, false
		}
		if set == nil {
			v.stats.set(statConfigValid, 0)
			return &Plugin{vm: v}, true
		}
		return v.activate(set), true
	}
	if got.first {
		for _, w := range got.set.Warnings() {
			v.gw.Log(Warn, "configuration: "+w)
		}
	}
	v.logRefusals(got)
	p := v.activate(got.set)
	if got.err != nil {
		p.name, p.refusedText, p.lastGoodDigest = name, raw, got.digest
	}
	return p, true
}

// activate puts a configuration in force.
func (v *VM) activate(set *config.Set) *Plugin {
	p := &Plugin{vm: v, set: set, warned: map[string]bool{}}
	v.inForce = append(v.inForce, p)
	v.followAdminSource()
	v.stats.set(statConfigValid, 1)
	v.stats.count(statConfigBad, 0)
	v.stats.count(statPanics, 0)
	v.stats.store(v.store.Stats)
	v.connect(set)
	return p
}

// retire drops a configuration. Requests that began under it go on.
func (v *VM) retire(p *Plugin) {
	v.inForce = slices.DeleteFunc(v.inForce, func(other *Plugin) bool { return other == p })
	v.followAdminSource()
}

// followAdminSource takes the source of endpoints from the newest configuration that names one: several may be in force in one VM,
// and those that need no endpoints must not take them from the others.
func (v *VM) followAdminSource() {
	v.adminSource = nil
	for _, p := range v.inForce {
		if source, ok := p.set.AdminSource(); ok {
			v.adminSource = &source
		}
	}
}

// errClusters says that there are too many clusters in use.
var errClusters = errors.New("too many clusters")

// cluster returns what is known of the cluster, with the policy of the configuration.
func (v *VM) cluster(name string, c *config.Config) (*cluster, lb.Policy, error) {
	cl := v.clusters[name]
	if cl == nil {
		if len(v.clusters) >= maxClusters {
			return nil, nil, errClusters
		}
		cl = &cluster{
			name: name, health: lb.NewHealth(), caches: lb.NewCacheTracker(), engines: lb.NewEngines(), shares: lb.NewRequestShares(),
			policies: map[*config.Config]lb.Policy{}, gauges: map[string]bool{}, answering: map[string]int{},
			streams: map[*Stream]struct{}{}, views: map[uint64]*lb.View{},
		}
		v.clusters[name] = cl
	}
	cl.usedAt = v.now()
	if unitOf(c) == lb.Tokens {
		cl.tokens, cl.guess = true, guessOf(c)
	}
	p := cl.policies[c]
	if p == nil {
		var err error
		if p, err = lb.New(c.Policy, configOf(c, cl)); err != nil {
			return nil, nil, err
		}
		cl.policies[c] = p
	}
	return cl, p, nil
}

func unitOf(c *config.Config) lb.Unit {
	if c.Unit == "tokens" {
		return lb.Tokens
	}
	return lb.Requests
}

func configOf(c *config.Config, cl *cluster) lb.Config {
	return lb.Config{
		Unit: unitOf(c), Cluster: termsOf(c), Health: cl.health, Caches: cl.caches,
		Engines: cl.engines, Engine: engineOf(c), Shares: cl.shares,
		Cache: lb.CacheConfig{
			Credit: c.Prefix.Credit, TTL: time.Duration(c.Prefix.TTLSeconds) * time.Second,
			IndexMemory: lb.IndexMemory{Local: c.Prefix.TableBytes, Remote: c.Prefix.RedisBytes},
		},
	}
}

func engineOf(c *config.Config) lb.EngineConfig {
	e := &c.Engines
	order := map[string]lb.Order{"least": lb.LowestTarget, "most": lb.HighestTarget}[e.Order]
	return lb.EngineConfig{
		Order: order, Target: e.Target, StaleAfter: e.StaleAfter, Learn: e.Learn, RateLimit: e.ShareLimit,
		Weights: lb.EngineWeights{Running: e.RunningCost, Queue: e.QueueCost, KVCache: e.KVCacheCost, LoRA: e.LoRACost},
	}
}

func termsOf(c *config.Config) lb.ClusterConfig {
	return lb.ClusterConfig{MaxInflight: int64(c.MaxInflight), ZonePenalty: c.ZonePenalty, Weights: c.Weights, Health: healthOf(c)}
}

func healthOf(c *config.Config) lb.HealthConfig {
	return lb.HealthConfig{
		ConsecutiveFailures: c.Health.ConsecutiveFailures, EjectionTime: c.Health.EjectionTime,
		MaxEjectionTime: c.Health.MaxEjectionTime, MaxEjectionPercent: c.Health.MaxEjectionPercent,
		SlowStart: c.Health.SlowStart, PanicThreshold: c.Health.PanicThreshold,
	}
}

// now returns a time that is at most a tick old. Health and leases need no better, and reading the gateway's clock
// costs a request as much as any other call.
func (v *VM) now() time.Duration {
	if v.clock == 0 {
		v.clock = v.gw.Now()
	}
	return v.clock
}

// ReadClock reads the gateway's clock.
func (v *VM) ReadClock() time.Duration {
	v.clock = v.gw.Now()
	return v.clock
}

// runAs runs f for a request from outside its callbacks, and comes back to the callback that runs.
func (v *VM) runAs(s *Stream, what string, f, recovered func()) {
	outside := v.current
	v.current = s.context
	v.gw.Enter(s.context)
	v.guard(what, f, recovered)
	v.current = outside
	v.gw.Enter(outside)
}

// tick does what is due. Several configurations in one VM tick it more often than needed, and so do deadlines.
func (v *VM) tick(p *Plugin) {
	now := v.ReadClock()
	v.postponeLate(p, now)
	v.rearm(p, now, v.expireCalls(now))
	v.dropIfDone(p)
	if now-v.lastTick < tickPeriod/2 {
		return
	}
	v.lastTick = now
	v.gw.Tick(now, v.adminSource)
	v.store.Flush(now)
	v.exchangeEjections(now)
	for s, until := range v.waiting {
		if now >= until {
			v.runAs(s, "a held request", s.bodyTimeout, s.lateRecovered)
		}
	}
	v.releaseStalled(now)
	v.guard("the metrics of engines", func() {
		v.announceDemand(now)
		v.scrapeDue(now)
		v.publishSamples(now)
		v.refreshSamples(now)
		v.exchangeShares(now)
	}, nil)
	if now-v.lastHeartbeat < heartbeatPeriod {
		return
	}
	v.lastHeartbeat = now
	if err := v.store.Heartbeat(now); err != nil {
		v.gw.Log(Warn, "beat: "+err.Error())
	}
	v.heartbeatRedis(now)
	v.refreshLastGood()
	v.setGauges(now)
	v.forgetClusters(now)
}

// forgetClusters drops the clusters that nobody has used for long, and what belongs to configurations that are not in force any
// more. It follows a last publish of the gauges, which are at rest: whoever has requests in flight to a cluster keeps
// it.
func (v *VM) forgetClusters(now time.Duration) {
	inForce := map[*config.Config]bool{}
	for _, p := range v.inForce {
		for _, c := range p.set.All() {
			inForce[c] = true
		}
	}
	for name, cl := range v.clusters {
		if cl.inflight == 0 && now-cl.usedAt > clusterAge {
			v.clearGauges(cl)
			delete(v.clusters, name)
			continue
		}
		cl.keepPolicies(inForce)
	}
}

// keepPolicies drops the policies of configurations that are not in force. What is learned is the cluster's, and stays.
func (cl *cluster) keepPolicies(inForce map[*config.Config]bool) {
	size := len(cl.policies)
	maps.DeleteFunc(cl.policies, func(c *config.Config, _ lb.Policy) bool { return !inForce[c] })
	if len(cl.policies) == size {
		return
	}
	cl.tokens = false
	for c := range cl.policies {
		if unitOf(c) == lb.Tokens {
			cl.tokens, cl.guess = true, guessOf(c)
		}
	}
	clear(cl.views) // requests bring those in use
}
