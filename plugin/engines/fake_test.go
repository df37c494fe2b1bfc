package engines

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/lb/models"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/endpoints"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/process"
	"github.com/warmgate/warmgate/plugin/process/processtest"
	"github.com/warmgate/warmgate/plugin/stats"
)

const fakeCluster = "llm"

// fakeGateway is the VMs of a process, as far as they get metrics: shared memory, time, and pages of endpoints that the
// configuration lists.
type fakeGateway struct {
	host.Gateway
	t       *testing.T
	kv      *processtest.KV
	now     time.Duration
	set     *config.Set
	log     []string
	pages   map[string]string
	metrics fakeMetrics
	vms     []*fakeVM
}

// fakeVM is one of them, and what it knows.
type fakeVM struct {
	*Scraping
	gateway  *fakeGateway
	clusters map[string]*Cluster
}

// demandingVMs returns the VMs of one process with a configuration.
func demandingVMs(t *testing.T, n int, raw string) (g *fakeGateway, vms []*fakeVM) {
	t.Helper()
	g = &fakeGateway{
		t: t, kv: &processtest.KV{Cells: map[string]processtest.Cell{}}, now: time.Hour,
		metrics: fakeMetrics{values: map[string]uint64{}},
	}
	if err := process.Prepare(g.kv); err != nil {
		t.Fatal(err)
	}
	for range n {
		e := &host.Env{GW: g, Kind: config.Higress, Stats: stats.New(&g.metrics)}
		v := &fakeVM{gateway: g, clusters: map[string]*Cluster{}}
		v.Scraping = NewScraping(e, g.inForce, v, v)
		g.vms = append(g.vms, v)
	}
	if !g.configure(raw) {
		t.Fatalf("refused: %s", raw)
	}
	return g, g.vms
}

// configure puts a configuration in force in all VMs.
func (g *fakeGateway) configure(raw string) bool {
	set, _, err := config.Update([]byte(raw), g.vms[0].Env.Kind, nil)
	if g.set = set; err != nil {
		g.t.Log(err)
	}
	return err == nil
}

func (g *fakeGateway) inForce() []*config.Config { return g.set.All() }

func (g *fakeGateway) KV() lb.KV { return g.kv }

func (g *fakeGateway) Now() time.Duration { return g.now }

func (g *fakeGateway) Log(_ host.Level, text string) { g.log = append(g.log, text) }

func (g *fakeGateway) Scrapes(time.Duration, bool) bool { return true }

func (g *fakeGateway) Scrape(_ time.Duration, j *endpoints.Job, report endpoints.PageReport) (list []lb.Endpoint) {
	for _, e := range j.Config.EnvoyCfg.Endpoints {
		list = append(list, lb.Endpoint{Addr: e.Addr})
		report(e.Addr, []byte(g.pages[e.Addr]), endpoints.ScrapeOK)
	}
	return list
}

// need has the VM need the metrics of a cluster under the i-th rule, the last one being the global part.
func (v *fakeVM) need(cluster string, rule int) {
	m := v.clusters[cluster]
	if m == nil {
		m = NewCluster(cluster, engines.New(), models.NewFacts(), map[uint64]*lb.View{})
		v.clusters[cluster] = m
	}
	v.demand.need(m, v.gateway.set.All()[rule])
}

// EnginesOf implements Clusters.
func (v *fakeVM) EnginesOf(name string) *Cluster { return v.clusters[name] }

// EachEngines implements Clusters.
func (v *fakeVM) EachEngines(f func(*Cluster)) {
	for _, m := range v.clusters {
		f(m)
	}
}

// LoadAt implements Counts.
func (*fakeVM) LoadAt(*config.Config, string, string) (lb.Load, bool) { return lb.Load{}, true }

// RemoteLoads implements Counts.
func (*fakeVM) RemoteLoads(time.Duration, *config.Config, string, []string, func([]lb.Load, error)) {}

// fakeMetrics are the statistics of the process, by the short forms of their names.
type fakeMetrics struct {
	names  []string
	values map[string]uint64
}

func (m *fakeMetrics) Counter(name string) uint32 {
	m.names = append(m.names, statname.Short(name))
	return uint32(len(m.names) - 1)
}

func (m *fakeMetrics) Gauge(name string) uint32 { return m.Counter(name) }

func (m *fakeMetrics) Histogram(name string) uint32 { return m.Counter(name) }

func (m *fakeMetrics) Add(id uint32, n int64) { m.values[m.names[id]] += uint64(n) }

func (m *fakeMetrics) Set(id uint32, n uint64) { m.values[m.names[id]] = n }
