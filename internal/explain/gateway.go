package explain

import (
	"errors"
	"fmt"
	"time"

	"github.com/warmgate/warmgate/internal/simulate"
	"github.com/warmgate/warmgate/internal/state"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/discovery"
	"github.com/warmgate/warmgate/plugin/endpoints"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/stats"
	"github.com/warmgate/warmgate/redisclient"
)

// gateway is a gateway with one VM, in which time stands still unless it is moved. It implements [host.Gateway].
type gateway struct {
	shared simulate.Memory
	now    time.Duration
	wall   time.Duration // since 1970, at the beginning
	seed   uint64
	draws  uint64
	views  map[string]*lb.View
	pages  map[string]page
	counts counts
}

// page is what the metrics page of an endpoint says, until it was read last.
type page struct {
	text  string
	until time.Duration
}

// start is the gateway's time at the beginning: later than any span that the plugin looks back.
const start = 100 * time.Hour

func newGateway(at, seed uint64) *gateway {
	return &gateway{
		shared: simulate.Memory{}, now: start, wall: time.Duration(at) * time.Millisecond, seed: seed,
		views: map[string]*lb.View{}, pages: map[string]page{},
	}
}

// add puts a cluster into the gateway.
func (g *gateway) add(c *state.Cluster, zone lb.Zone) {
	view := &lb.View{Cluster: c.Name, Zone: zone}
	for i := range c.Endpoints {
		e := &c.Endpoints[i]
		view.Endpoints = append(view.Endpoints, lb.Endpoint{
			Addr: e.Addr, Weight: e.Weight, State: stateOf(e), Zone: lb.Zone{Name: e.Zone},
		})
		if m := e.Engine; m != nil {
			text := fmt.Sprintf("vllm:num_requests_running %g\nvllm:num_requests_waiting %g\n"+
				"vllm:kv_cache_usage_perc %g\n", m.Running, m.Waiting, m.KVCache)
			g.pages[e.Addr] = page{text, start - time.Duration(m.AgeMS)*time.Millisecond}
		}
	}
	g.views[c.Name] = view
}

// stateOf returns the state of an endpoint that has been said to be in one.
func stateOf(e *state.Endpoint) lb.State {
	for _, s := range [...]lb.State{lb.Degraded, lb.Unhealthy, lb.Draining, lb.Ejected} {
		if e.Health == s.String() {
			return s
		}
	}
	return lb.Healthy
}

func (g *gateway) KV() lb.KV          { return g.shared }
func (g *gateway) Now() time.Duration { return g.now }

// Random draws from the seed, so that the same question has the same answer.
func (g *gateway) Random() uint64 {
	g.draws++
	return lb.Mix(g.seed + g.draws*0x9e3779b97f4a7c15)
}

func (g *gateway) View(_ time.Duration, cluster string, c *config.Config) *lb.View {
	return endpoints.Wanted(g.views[cluster], c)
}

func (g *gateway) KnownView(_ time.Duration, cluster string, _ *config.Config) *lb.View {
	return g.views[cluster]
}

// Scrapes implements host.Gateway: the only VM is the one that does.
func (g *gateway) Scrapes(time.Duration, bool) bool { return true }

// Scrape reports each page as often as it is asked for, until the time that it was read last. Each time it is another
// one: what Higress has stored twice is one sample.
func (g *gateway) Scrape(_ time.Duration, j *endpoints.Job, report endpoints.PageReport) []lb.Endpoint {
	view := g.views[j.Cluster]
	if view == nil {
		return nil
	}
	for i := range view.Endpoints {
		addr := view.Endpoints[i].Addr
		if p, ok := g.pages[addr]; ok && g.now <= p.until {
			report(addr, fmt.Appendf(nil, "# %v\n%s", g.now, p.text), endpoints.ScrapeOK)
		}
	}
	return view.Endpoints
}

func (g *gateway) Wall() time.Duration    { return g.wall + g.now - start }
func (g *gateway) Metrics() stats.Metrics { return g.counts }

// The other methods of host.Gateway are for what such a gateway has not: other VMs, regions, Redis, a log.

var errNothing = errors.New("explain: there is no network")

func (g *gateway) Serves()                                                        {}
func (g *gateway) Breakers(*config.Config) (map[string]discovery.Breaker, uint32) { return nil, 0 }

func (g *gateway) HasSubsets(string, *config.Config) bool  { return false }
func (g *gateway) Tick(time.Duration, *config.EnvoySource) {}
func (g *gateway) ModelsPage(string, *config.Config, func(page []byte, result string)) error {
	return errNothing
}
func (g *gateway) Probe(string, host.ProbeCall, func(text string)) error { return errNothing }
func (g *gateway) RedisLink(*config.Config) host.RedisLink               { return noRedis{} }
func (g *gateway) Hurry(time.Duration)                                   {}
func (g *gateway) Enter(uint32)                                          {}
func (g *gateway) SetTick(uint32, time.Duration) error                   { return nil }
func (g *gateway) Listen(uint32, uint64) error                           { return nil }
func (g *gateway) Wake(uint64, []byte)                                   {}
func (g *gateway) PluginDone(uint32)                                     {}
func (g *gateway) Log(host.Level, string)                                {}

// noRedis is a connection to no Redis.
type noRedis struct{}

func (noRedis) Do(now time.Duration, _ []byte, done redisclient.Done) { done(now, nil, errNothing) }
func (noRedis) Connect(time.Duration, config.Redis)                   {}
func (noRedis) Expire(time.Duration) time.Duration                    { return 0 }
func (noRedis) Postpone(time.Duration)                                {}

// counts are statistics that nobody reads.
type counts struct{}

func (counts) Counter(string) uint32   { return 0 }
func (counts) Gauge(string) uint32     { return 0 }
func (counts) Histogram(string) uint32 { return 0 }
func (counts) Add(uint32, int64)       {}
func (counts) Set(uint32, uint64)      {}

var _ host.Gateway = (*gateway)(nil)
