package higresshost

import (
	"context"
	"errors"
	"time"

	"github.com/tetratelabs/wazero"

	"github.com/warmgate/warmgate/e2e/fakehost"
	"github.com/warmgate/warmgate/plugin/process/processtest"
)

// Gateway is one gateway process. Make it with New or Start; end it with Close.
type Gateway struct {
	// OnHostCall, if set, runs before every host call that a guest makes, with its name without "proxy_". It is where a
	// test lets another worker act in between. It must neither drive the calling worker nor advance the clock.
	OnHostCall func(w *Worker, name string)
	// OnRoute, if set, plays the filters between the plugin and the router: a code other than 0 is answered locally.
	OnRoute func(s *Stream) (code int)
	// OnHTTPCall, if set, is called with each http_call once the guest has returned. Otherwise calls wait in HTTPCalls.
	OnHTTPCall func(c *HTTPCall)
	// OnRedisCall, if set, is called with each redis_call once the guest has returned. Otherwise calls wait in
	// RedisCalls.
	OnRedisCall func(c *RedisCall)

	record
	opts   Options
	ctx    context.Context
	code   *code
	config string
	canary map[tried]bool

	host       fakehost.Host
	passed     time.Duration // since the start
	clock      *fakehost.Clock
	posted     []func()
	settling   bool
	running    int // VMs inside a callback; more than one only where OnHostCall drives another worker
	main       *Worker
	workers    []*Worker
	vms        int // made so far, the canaries included
	alive      map[*vm]bool
	shared     processtest.KV
	queues     sharedQueues
	metrics    *fakehost.Metrics
	redis      map[string]*RedisCluster
	httpCalls  []*HTTPCall
	redisCalls []*RedisCall
	nextCall   uint32
	requestID  int
}

// tried is what a canary VM has tried.
type tried struct {
	code   wazero.CompiledModule
	config string
}

// ErrConfigRejected is returned when the plugin refused a configuration (OnPluginStart failed in the canary VM).
var ErrConfigRejected = errors.New("higresshost: the plugin refused its configuration")

// Close frees the VMs without calling into them; Shutdown ends their contexts first.
func (g *Gateway) Close() error {
	var errs []error
	for v := range g.alive {
		errs = append(errs, v.kill())
	}
	return errors.Join(errs...)
}

// Shutdown ends the gateway as a stopping Envoy does: all streams are reset, then done is called on every plugin
// context.
func (g *Gateway) Shutdown() {
	g.drive(func() {
		for _, w := range g.threads() {
			for _, r := range append([]*root(nil), w.roots...) {
				for _, s := range append([]*Stream(nil), r.streams...) {
					s.Reset("downstream_local_disconnect")
				}
				r.retire()
			}
			w.current = nil
		}
	})
}

// PushConfig gives the plugin a new configuration, as ECDS does: a canary VM tries it, then each thread makes a new
// root context in its VM. Running streams stay with the old context, which ends with its last stream. On
// ErrConfigRejected the old configuration stays in force.
func (g *Gateway) PushConfig(config string) error {
	var err error
	g.drive(func() { err = g.push(g.code, config) })
	return err
}

func (g *Gateway) push(code *code, config string) error {
	key := tried{code.compiled, config}
	accepted, known := g.canary[key]
	if !known {
		accepted = g.tryInCanary(code, config)
		g.canary[key] = accepted
	}
	if !accepted {
		g.log("canary", LogHost, "configuration refused")
		return ErrConfigRejected
	}
	g.code, g.config = code, config
	for _, w := range g.threads() {
		w.adopt()
	}
	return nil
}

// tryInCanary runs the configuration in a VM that is then freed without any further call.
func (g *Gateway) tryInCanary(code *code, config string) bool {
	v, err := g.newVM(&Worker{gw: g, name: "canary"}, code)
	if err != nil {
		g.log("canary", LogHost, err.Error())
		return false
	}
	defer v.kill()
	_, ok := v.newRoot(config)
	return ok
}

// Advance moves simulated time on by d: ticks, timeouts and timers that come due run in order.
func (g *Gateway) Advance(d time.Duration) {
	g.drive(func() { g.clock.Advance(d, g.settle) })
}

// Now returns the simulated time.
func (g *Gateway) Now() time.Time { return g.opts.Now.Add(g.passed) }

// After runs fn when the clock has been advanced by d.
func (g *Gateway) After(d time.Duration, fn func()) { g.clock.After(d, fn) }

// Cluster returns the cluster of that name; it is created empty on first use.
func (g *Gateway) Cluster(name string) *fakehost.Cluster {
	c := g.host.Clusters[name]
	if c == nil {
		c = &fakehost.Cluster{}
		g.host.Clusters[name] = c
	}
	return c
}

// Worker returns worker i, counted from 0.
func (g *Gateway) Worker(i int) *Worker { return g.workers[i] }

// Workers returns all workers, the main thread not among them.
func (g *Gateway) Workers() []*Worker { return g.workers }

// Shared returns the shared data of the process.
func (g *Gateway) Shared() *processtest.KV { return &g.shared }

// Metrics returns the metrics of the process.
func (g *Gateway) Metrics() *fakehost.Metrics { return g.metrics }

func (g *Gateway) threads() []*Worker { return append([]*Worker{g.main}, g.workers...) }

// post runs fn once the guest that is running now has returned, as posting to an event loop does.
func (g *Gateway) post(fn func()) { g.posted = append(g.posted, fn) }

// drive runs one step of the test and then everything that was posted by it.
func (g *Gateway) drive(step func()) {
	step()
	g.settle()
}

func (g *Gateway) settle() {
	if g.settling || g.running > 0 {
		return
	}
	g.settling = true
	defer func() { g.settling = false }()
	for len(g.posted) > 0 {
		fn := g.posted[0]
		g.posted = g.posted[1:]
		fn()
	}
}
