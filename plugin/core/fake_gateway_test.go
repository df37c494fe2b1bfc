package core

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/fakehost"
	"github.com/warmgate/warmgate/internal/state"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/memstore"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/endpoints"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/process"
	"github.com/warmgate/warmgate/plugin/process/processtest"
	"github.com/warmgate/warmgate/plugin/stats"
	"github.com/warmgate/warmgate/plugin/stores"
	"github.com/warmgate/warmgate/plugin/vm"
)

// fakeProcess is a gateway process that runs the plugin's native code: a main thread and workers with a VM each, shared
// memory, statistics and simulated time.
type fakeProcess struct {
	t       *testing.T
	kv      *processtest.KV
	now     time.Duration
	rand    *rand.Rand
	metrics *fakeMetrics
	main    *fakeWorker
	workers []*fakeWorker
	running string          // the configuration in force, "" before the first
	tried   map[string]bool // whether a configuration was taken when it was tried
	log     []string
	access  []string

	view       *lb.View
	anyCluster bool // whatever the name, there is such a cluster
	divided    bool // the cluster has subsets
	endpoints  []*fakeEndpoint
	host       fakehost.Host       // the filter chain and the router
	sites      map[string][]int    // the endpoints of each of several clusters; nil: there is one, with all
	known      map[string]*lb.View // views of those
	outdated   map[string]bool     // of those, that have no endpoint any more, which their views do not show yet
	fakeBreakers
	unseen bool // only those are known that a request is routed to, as in Higress

	lent      []byte      // see lend
	inside    *vm.VM      // whose callback runs
	effective *fakeStream // the request that calls act on
	streams   map[uint32]*fakeStream
	clock     *fakehost.Clock // of what is still to come
	later     []func()        // what the gateway does when the plugin's callback has ended
	redis     *fakeRedis
	left      []uint32          // contexts of configurations that the gateway may drop
	listening map[uint64]uint32 // contexts by the owners that are woken through them
	wakes     int               // calls of Wake
	deaf      bool              // wake-ups get lost

	peers     map[string]*fakeProcess // gateways of other regions, by the cluster that leads there
	rtt       time.Duration           // of a round trip to them
	ahead     time.Duration           // how far the wall clock is ahead
	probes    int                     // calls of Probe
	asking    map[*vm.VM]bool         // that have called it
	fault     string                  // name of the call that panics
	faultLeft int                     // calls until it does
	onCall    func(name string)       // is told of calls, nil for nobody
	ticks     int                     // calls of Tick
	source    *config.EnvoySource     // of the last Tick
	pages     map[string]string       // of metrics, by address, or a status; nil: none is scraped
	stored    bool                    // pages are shown to requests only, as in Higress
	scrapes   int                     // calls of Scrape
	fakeLists
	hint      []byte                   // property of the endpoints that requests are limited to
	steerErr  error                    // what Steer answers, nil when all is well
	explained func(*state.Explanation) // gets what would become of requests, which are trials then; nil: they are not
}

// fakeEndpoint is a model server in the cluster.
type fakeEndpoint struct {
	lb.Endpoint
	refuses bool
	at      fakehost.Endpoint // as the router sees it
}

// fakeWorker is a thread of the gateway.
type fakeWorker struct {
	process *fakeProcess
	id      uint32 // of its plugin's context
	vm      *vm.VM
	current *vm.Plugin
	period  time.Duration
	next    *fakehost.Timer // tick
	ticks   int
}

const (
	fakeCluster = "outbound|80||llm.static"
	fakeRoute   = "chat"
)

func newFakeProcess(t *testing.T, workers int) *fakeProcess {
	t.Helper()
	p := &fakeProcess{
		t: t, kv: &processtest.KV{Cells: map[string]processtest.Cell{}}, now: time.Hour,
		rand:    rand.New(rand.NewPCG(1, 2)),
		metrics: newFakeMetrics(t),
		streams: map[uint32]*fakeStream{}, tried: map[string]bool{}, listening: map[uint64]uint32{},
		asking: map[*vm.VM]bool{},
	}
	p.clock = fakehost.NewClock(&p.now)
	p.host = fakehost.Host{
		Clusters: map[string]*fakehost.Cluster{}, BufferLimit: 1 << 30, Drive: func(step func()) { step() },
		Violate: t.Errorf,
	}
	t.Cleanup(func() {
		for _, line := range p.log {
			if strings.Contains(line, " a request in phase ") {
				t.Error("a transition that is not in the table: " + line)
			}
		}
	})
	p.redis = &fakeRedis{process: p}
	p.main = p.newWorker()
	for range workers {
		p.workers = append(p.workers, p.newWorker())
	}
	return p
}

func (p *fakeProcess) newWorker() *fakeWorker {
	w := &fakeWorker{process: p, id: uint32(1 + len(p.threads()))}
	w.vm = p.newVM(config.Higress)
	return w
}

// newVM returns a VM of a gateway of the kind.
func (p *fakeProcess) newVM(kind config.Host) *vm.VM { return vm.New(fakeGateway{p}, kind) }

func (p *fakeProcess) threads() []*fakeWorker {
	if p.main == nil {
		return nil
	}
	return append([]*fakeWorker{p.main}, p.workers...)
}

// configure does what Envoy does: a VM of its own tries the configuration, once for each text, then every thread gets
// it.
func (p *fakeProcess) configure(raw string) bool {
	taken, known := p.tried[raw]
	if !known {
		taken = started(p.newVM(config.Higress), 0, "warmgate", raw) != nil
		p.tried[raw] = taken
	}
	if !taken {
		return false
	}
	for _, w := range p.threads() {
		w.start(raw)
	}
	p.running = raw
	return true
}

func (w *fakeWorker) start(raw string) {
	next := started(w.vm, w.id, "warmgate", raw)
	if next == nil {
		w.process.t.Errorf("a thread refused the configuration that the canary took: %s", raw)
		return
	}
	if w.current != nil {
		w.current.OnDone()
	}
	w.current = next
	w.vm.Ticks.Set(&next.Ticker, w.process.now, process.TickPeriod) // the first one comes no sooner than others
}

// started returns the configuration of a plugin that a VM has put in force for a context, nil if it is refused.
func started(v *vm.VM, context uint32, name, raw string) *vm.Plugin {
	return v.NewPlugin(context).OnStart(func() (string, []byte) { return name, []byte(raw) })
}

// lose ends a worker's VM without any callback in it.
func (w *fakeWorker) lose() {
	w.current = nil
	w.vm = w.process.newVM(config.Higress)
	w.start(w.process.running)
}

// advance lets time pass: threads tick as often as the plugin has set, and events happen.
func (p *fakeProcess) advance(d time.Duration) { p.clock.Advance(d, func() {}) }

// after has something happen later.
func (p *fakeProcess) after(d time.Duration, do func()) { p.clock.After(d, do) }

func (w *fakeWorker) tick() {
	if w.current == nil {
		return
	}
	before := w.next
	w.ticks++
	w.process.in(w.vm, w.current.OnTick)
	if w.next == before {
		w.next = w.process.clock.After(w.period, w.tick)
	}
}

// wake runs the callback by which another VM wakes this one.
func (w *fakeWorker) wake(message []byte) {
	w.process.in(w.vm, func() { w.current.OnWake([][]byte{message}) })
}

// in runs a callback of the plugin in a VM that is no request's, after which it has to have come back from the requests
// that it visited.
func (p *fakeProcess) in(vm *vm.VM, f func()) {
	p.inside = vm
	f()
	if p.effective != nil {
		p.t.Error("after a callback that is no request's, calls still act on one")
	}
	p.effective = nil
	p.settle()
}

// settle does what the plugin's calls have deferred until its callback returns.
func (p *fakeProcess) settle() {
	for len(p.later) > 0 {
		f := p.later[0]
		p.later = p.later[1:]
		f()
	}
}

// call is called for every call that the plugin makes on the gateway.
func (p *fakeProcess) call(name string) {
	if p.onCall != nil {
		p.onCall(name)
	}
	if name != p.fault {
		return
	}
	if p.faultLeft--; p.faultLeft == 0 {
		panic(fmt.Sprintf("fault in %s", name))
	}
}

// loads returns what is in flight on an endpoint over all owners.
func (p *fakeProcess) load(addr string) lb.Load {
	p.t.Helper()
	loads, err := memstore.New(p.kv, 1, stores.LeaseTTL).Loads(fakeCluster, []string{addr}, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	return loads[0]
}

// lend returns text in memory that is used again: what was returned before is overwritten.
func (p *fakeProcess) lend(text string) []byte {
	for i := range p.lent {
		p.lent[i] = 0xff
	}
	p.lent = append(p.lent[:0], text...)
	return p.lent
}

// fakeGateway is the process as the plugin sees it.
type fakeGateway struct{ *fakeProcess }

func (g fakeGateway) KV() lb.KV              { return g.kv }
func (g fakeGateway) Now() time.Duration     { g.call("Now"); return g.now }
func (g fakeGateway) Random() uint64         { g.call("Random"); return g.rand.Uint64() }
func (g fakeGateway) Metrics() stats.Metrics { return g.metrics }

func (g fakeGateway) View(_ time.Duration, cluster string, c *config.Config) *lb.View {
	g.call("View")
	if g.effective == nil {
		g.t.Error("View was called while no request is the one that calls act on")
	}
	if g.sites != nil {
		return g.siteView(cluster)
	}
	if len(g.view.Endpoints) == 0 && !c.WaitsFromZero() || cluster != fakeCluster && !g.anyCluster {
		return nil
	}
	if g.anyCluster {
		return &lb.View{Cluster: cluster, Endpoints: g.view.Endpoints}
	}
	return g.view
}

func (g fakeGateway) HasSubsets(string, *config.Config) bool { return g.divided }

func (g fakeGateway) Tick(_ time.Duration, source *config.EnvoySource) {
	g.fakeProcess.source = source
	g.fakeProcess.ticks++
	g.call("Tick")
}

func (g fakeGateway) Hurry(time.Duration) { g.call("Hurry") }

// Scrapes implements Gateway: every VM scrapes.
func (g fakeGateway) Scrapes(time.Duration, bool) bool { return true }

// Scrape implements Gateway: pages are there at once.
func (g fakeGateway) Scrape(_ time.Duration, j *endpoints.Job, report endpoints.PageReport) []lb.Endpoint {
	g.call("Scrape")
	if g.stored && j.Request == 0 {
		return nil
	}
	g.fakeProcess.scrapes++
	list := g.view.Endpoints
	if listed := j.Config.EnvoyCfg.Endpoints; listed != nil {
		list = nil
		for _, e := range listed {
			list = append(list, lb.Endpoint{Addr: e.Addr, Weight: e.Weight})
		}
	}
	for _, e := range list {
		if page, ok := g.pages[e.Addr]; strings.HasPrefix(page, endpoints.ScrapeStatus) {
			report(e.Addr, nil, page)
		} else if ok {
			report(e.Addr, []byte(page), endpoints.ScrapeOK)
		} else if g.pages != nil {
			report(e.Addr, nil, endpoints.ScrapeUnreachable)
		}
	}
	return list
}

func (g fakeGateway) Enter(context uint32) { g.effective = g.streams[context] }

func (g fakeGateway) SetTick(context uint32, period time.Duration) error {
	for _, w := range g.threads() {
		if w.id == context {
			w.next.Stop()
			w.period, w.next = period, g.clock.After(period, w.tick)
		}
	}
	return nil
}

func (g fakeGateway) Listen(context uint32, owner uint64) error {
	g.call("Listen")
	g.listening[owner] = context
	return nil
}

// wakeTime is how long a wake-up takes.
const wakeTime = 300 * time.Microsecond

func (g fakeGateway) Wake(owner uint64, message []byte) {
	g.call("Wake")
	g.wakes++
	context, ok := g.listening[owner]
	if !ok || g.deaf {
		return
	}
	for _, w := range g.threads() {
		if w.id == context && w.vm.Stores.Owner == owner {
			g.after(wakeTime, func() { w.wake(message) })
		}
	}
}

func (g fakeGateway) PluginDone(context uint32) { g.left = append(g.left, context) }

func (g fakeGateway) RedisLink(*config.Config) host.RedisLink {
	g.redis.latest = &fakeLink{redis: g.redis}
	return g.redis.latest
}

func (g fakeGateway) Log(l host.Level, text string) {
	g.fakeProcess.log = append(g.fakeProcess.log, fmt.Sprintf("%d %s", l, text))
}
