package main

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/config"
)

const (
	// tickPeriod is how often a VM wakes up: the precision of deadlines.
	tickPeriod = 100 * time.Millisecond
	// firstTick is when the first tick of a configuration comes: until the endpoints are known, requests are balanced
	// natively and no cap is in force.
	firstTick  = 10 * time.Millisecond
	beatPeriod = time.Second
	// leaseTTL is how long an owner may be silent before its leases are returned. A worker that stands still for
	// longer does not serve either.
	leaseTTL = 5 * time.Second
)

// vm is what lives as long as the VM: the owner of its leases, the clusters it has seen, the requests it holds. It
// outlives configurations, so that counts and health do.
type vm struct {
	gw        Gateway
	stats     *stats
	store     *lb.MemStore
	shared    map[target]*sharedStore
	inside    uint32              // the gateway's context that calls act on
	excused   bool                // the last tick was late, and deadlines were moved for that
	live      []*plugin           // configurations in force, the newest last
	seen      map[string]uint64   // turn of the past that this VM has last agreed with, by name of the plugin
	source    *config.EnvoySource // where those say that endpoints are found
	clusters  map[string]*cluster
	repeats   bool                      // the plugin was found twice in one filter chain
	held      map[*stream]time.Duration // requests that wait for their body, and until when
	open      map[*stream]progress      // leases that count what has come of a body
	chainers  map[chainTerms]*prompt.Chainer
	models    models
	own       [16]byte // secret of this process
	lastID    lb.LeaseID
	host      config.Host
	readers   *readers
	announced map[metered]bool          // metrics that requests here need, as other VMs know
	needed    map[metered]time.Duration // metrics that requests here needed since that was last told
	told      time.Duration             // when it was
	news      bool                      // some of them were not needed before
	clock     time.Duration             // as last read: see now
	ticked    time.Duration
	beaten    time.Duration
}

// cluster is what one VM knows of a cluster.
type cluster struct {
	name      string
	views     map[uint64]*lb.View // the latest of each source
	health    *lb.Health
	caches    *lb.Caches
	engines   *lb.Engines
	shares    *lb.Shares
	policies  map[*config.Config]lb.Policy
	gauges    map[string]bool // endpoints with gauges
	tokens    bool            // a configuration in force counts tokens
	guess     guess           // of that configuration
	prompts   prompts         // for prefix_cache
	ejected   uint64          // ejections counted so far
	leased    int             // requests of this VM in flight
	answering map[string]int  // of those, by endpoint, whose response has begun
	weighed   uint64          // requests of this VM so far, with unit: tokens
	usages    uint64          // answers to those whose usage was read
	used      time.Duration

	metered   time.Duration        // when metrics of its engines were last needed, 0 for never
	engineCfg *config.Config       // that needed them
	readings  uint32               // version of the readings that its engines are from
	seen      time.Duration        // when the latest of those was
	tried     time.Duration        // when a request last had them read, 0 for never
	targets   []string             // of those readings
	pages     map[string]uint64    // digests of the pages that those are from, by address
	serving   map[*stream]struct{} // requests that need them
}

func newVM(gw Gateway) *vm {
	v := &vm{
		gw: gw, stats: newStats(gw.Metrics()),
		shared: map[target]*sharedStore{}, clusters: map[string]*cluster{}, held: map[*stream]time.Duration{},
		open:     map[*stream]progress{},
		chainers: map[chainTerms]*prompt.Chainer{}, models: models{},
		seen: map[string]uint64{}, readers: newReaders(), needed: map[metered]time.Duration{}, announced: map[metered]bool{}, host: gatewayKind,
	}
	v.store = lb.NewMemStore(gw.KV(), gw.Random()|1, leaseTTL)
	return v
}

// plugin is one configuration of the plugin in this VM.
type plugin struct {
	vm      *vm
	set     *config.Set // nil: refused, with no good one before it
	name    string      // of the plugin
	text    []byte      // of a configuration that was refused in part, else nil
	note    uint64      // digest of the past that its set is from
	context uint32      // the gateway's
	period  time.Duration
	due     time.Duration   // when its next tick comes
	calls   int             // made in its name and not answered yet
	left    time.Duration   // when the gateway was done with it, 0 before
	warned  map[string]bool // clusters whose table of prompts is too small
}

// configure reads a configuration. It returns false when the gateway should refuse it and go on with the one before.
func (v *vm) configure(name string, raw []byte, h config.Host) (*plugin, bool) {
	if err := prepare(v.gw.KV()); err != nil {
		// Requests are still served: each will find the store unready and fall to native balancing.
		v.gw.Log(Error, err.Error())
	}
	v.own = ownSecret(v.gw.KV(), v.gw.Random)
	got := v.take(name, raw, h)
	if got.set == nil {
		v.stats.count(statConfigBad, 1)
		then := "every request is left to native balancing: "
		set, taken := v.fallBack(name, raw, h)
		if set != nil || !taken {
			then = "the one before stays in force: "
		}
		v.gw.Log(Error, "configuration refused, "+then+got.why.Error())
		if !taken {
			return nil, false
		}
		if set == nil {
			v.stats.set(statConfigValid, 0)
			return &plugin{vm: v}, true
		}
		return v.enforce(set), true
	}
	if got.news {
		for _, w := range got.set.Warnings() {
			v.gw.Log(Warn, "configuration: "+w)
		}
	}
	v.refused(got)
	p := v.enforce(got.set)
	if got.why != nil {
		p.name, p.text, p.note = name, raw, got.note
	}
	return p, true
}

// enforce puts a configuration in force.
func (v *vm) enforce(set *config.Set) *plugin {
	p := &plugin{vm: v, set: set, warned: map[string]bool{}}
	v.live = append(v.live, p)
	v.follow()
	v.stats.set(statConfigValid, 1)
	v.stats.count(statConfigBad, 0)
	v.stats.count(statPanics, 0)
	v.stats.store(v.store.Stats)
	v.connect(set)
	return p
}

// retire drops a configuration. Requests that began under it go on.
func (v *vm) retire(p *plugin) {
	v.live = slices.DeleteFunc(v.live, func(other *plugin) bool { return other == p })
	v.follow()
}

// follow takes the source of endpoints from the newest configuration that names one: several may be in force in one VM,
// and those that need no endpoints must not take them from the others.
func (v *vm) follow() {
	v.source = nil
	for _, p := range v.live {
		if source, ok := p.set.AdminSource(); ok {
			v.source = &source
		}
	}
}

// errClusters says that there are too many clusters in use.
var errClusters = errors.New("too many clusters")

// cluster returns what is known of the cluster, with the policy of the configuration.
func (v *vm) cluster(name string, c *config.Config) (*cluster, lb.Policy, error) {
	cl := v.clusters[name]
	if cl == nil {
		if len(v.clusters) >= maxClusters {
			return nil, nil, errClusters
		}
		cl = &cluster{
			name: name, health: lb.NewHealth(), caches: lb.NewCaches(), engines: lb.NewEngines(), shares: lb.NewShares(),
			policies: map[*config.Config]lb.Policy{}, gauges: map[string]bool{}, answering: map[string]int{},
			serving: map[*stream]struct{}{}, views: map[uint64]*lb.View{},
		}
		v.clusters[name] = cl
	}
	cl.used = v.now()
	if c.Unit == lb.Tokens {
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

func configOf(c *config.Config, cl *cluster) lb.Config {
	return lb.Config{
		Unit: c.Unit, Cluster: termsOf(c), Health: cl.health, Caches: cl.caches, Cache: c.Prefix.CacheConfig,
		Engines: cl.engines, Engine: c.Engines.EngineConfig, Shares: cl.shares, Settings: c.Settings(),
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
func (v *vm) now() time.Duration {
	if v.clock == 0 {
		v.clock = v.gw.Now()
	}
	return v.clock
}

// read reads the gateway's clock.
func (v *vm) read() time.Duration {
	v.clock = v.gw.Now()
	return v.clock
}

// visit runs f for a request from outside its callbacks, and comes back to the callback that runs.
func (v *vm) visit(s *stream, what string, f, recovered func()) {
	outside := v.inside
	v.inside = s.context
	v.gw.Enter(s.context)
	v.guard(what, f, recovered)
	v.inside = outside
	v.gw.Enter(outside)
}

// tick does what is due. Several configurations in one VM tick it more often than needed, and so do deadlines.
func (v *vm) tick(p *plugin) {
	now := v.read()
	v.excuse(p, now)
	v.rearm(p, now, v.expire(now))
	v.depart(p)
	if now-v.ticked < tickPeriod/2 {
		return
	}
	v.ticked = now
	v.gw.Tick(now, v.source)
	v.store.Flush(now)
	v.shareEjections(now)
	for s, until := range v.held {
		if now >= until {
			v.visit(s, "a held request", s.bodyLate, s.lateRecovered)
		}
	}
	v.followOpen(now)
	v.guard("the metrics of engines", func() {
		v.tellMetered(now)
		v.askEngines(now)
		v.publishReadings(now)
		v.followReadings(now)
		v.sharePicks(now)
	}, nil)
	if now-v.beaten < beatPeriod {
		return
	}
	v.beaten = now
	if err := v.store.Heartbeat(now); err != nil {
		v.gw.Log(Warn, "beat: "+err.Error())
	}
	v.beatShared(now)
	v.followPast()
	v.publish(now)
	v.forget(now)
}

// forget drops the clusters that nobody has used for long, and what belongs to configurations that are not in force any
// more. It follows a last publish of the gauges, which are at rest: whoever has requests in flight to a cluster keeps
// it.
func (v *vm) forget(now time.Duration) {
	inForce := map[*config.Config]bool{}
	for _, p := range v.live {
		for _, c := range p.set.All() {
			inForce[c] = true
		}
	}
	for name, cl := range v.clusters {
		if cl.leased == 0 && now-cl.used > clusterAge {
			v.rest(cl)
			delete(v.clusters, name)
			continue
		}
		cl.keep(inForce)
	}
}

// keep drops the policies of configurations that are not in force. What is learned is the cluster's, and stays.
func (cl *cluster) keep(inForce map[*config.Config]bool) {
	size := len(cl.policies)
	maps.DeleteFunc(cl.policies, func(c *config.Config, _ lb.Policy) bool { return !inForce[c] })
	if len(cl.policies) == size {
		return
	}
	cl.tokens = false
	for c := range cl.policies {
		if c.Unit == lb.Tokens {
			cl.tokens, cl.guess = true, guessOf(c)
		}
	}
	clear(cl.views) // requests bring those in use
}
