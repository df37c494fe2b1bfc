package endpoints

import (
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/internal/recent"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/discovery"
)

// EnvoyCalls are the calls of stock Envoy by which endpoints and their metrics are found.
type EnvoyCalls interface {
	KV() lb.KV
	Now() time.Duration
	Random() uint64
	// Warn writes to the gateway's log.
	Warn(text string)
	// Zone returns where Envoy is by its bootstrap.
	Zone() lb.Zone
	// AdminPage requests a page of the admin interface. answered is called with it, unless there is an error.
	AdminPage(source *config.EnvoySource, path string, answered func(body []byte, status string)) error
	// MetricsPage requests the metrics of an engine at its address and port for that. answered is called with the page
	// and a result: ScrapeOK, or why there is no page.
	MetricsPage(where string, c *config.Config, answered func(page []byte, result string)) error
}

// fixed names a cluster whose endpoints are in a configuration. Rules of one cluster may list different ones.
type fixed struct {
	config  *config.Config
	cluster string
}

// Envoy is the part of a Gateway that finds endpoints and scrapes engines with stock Envoy: from its own admin
// interface, or as the configuration lists them.
type Envoy struct {
	calls   EnvoyCalls
	admin   *adminPoller
	scraper *scraper
	static  *recent.Cache[fixed, *lb.View]
}

// NewEnvoy returns the part of a Gateway that finds endpoints through these calls.
func NewEnvoy(calls EnvoyCalls) *Envoy {
	e := &Envoy{
		calls: calls, admin: newAdminPoller(calls.KV(), calls.Random()),
		scraper: newScraper(calls.KV(), calls.Random()),
		static:  recent.New[fixed, *lb.View](MaxClusters, ClusterAge),
	}
	e.admin.where = calls.Zone
	return e
}

// Serves implements Gateway.
func (e *Envoy) Serves() { e.admin.serves = true }

// View implements Gateway.
func (e *Envoy) View(now time.Duration, cluster string, c *config.Config) *lb.View {
	if len(c.EnvoyCfg.Endpoints) == 0 {
		return Wanted(e.admin.view(now, cluster), c)
	}
	key := fixed{c, cluster}
	if v, ok := e.static.Get(now, key); ok {
		return v
	}
	v := &lb.View{Cluster: cluster}
	list := xxhash.New()
	for _, e := range c.EnvoyCfg.Endpoints {
		_, _ = list.WriteString(e.Addr + "\n")
		v.Endpoints = append(v.Endpoints, lb.Endpoint{Addr: e.Addr, Weight: e.Weight})
	}
	v.ListID = list.Sum64() | 1
	e.static.Put(now, key, v)
	return v
}

// KnownView implements Gateway.
func (e *Envoy) KnownView(now time.Duration, cluster string, c *config.Config) *lb.View {
	if c.EnvoyCfg.AdminCluster == "" {
		return nil
	}
	return unlessEmpty(e.admin.view(now, cluster))
}

// Hurry implements Gateway.
func (e *Envoy) Hurry(now time.Duration) { e.admin.hurry(now) }

// Breakers implements Gateway.
func (e *Envoy) Breakers(c *config.Config) (map[string]discovery.Breaker, uint32) {
	if c.EnvoyCfg.AdminCluster == "" {
		return nil, 0
	}
	return e.admin.breakers, e.admin.breakersCAS
}

// HasSubsets implements Gateway. A rule that lists the endpoints itself knows its part.
func (e *Envoy) HasSubsets(cluster string, c *config.Config) bool {
	return len(c.EnvoyCfg.Endpoints) == 0 && e.admin.subsets.names[cluster]
}

// Tick implements Gateway.
func (e *Envoy) Tick(now time.Duration, source *config.EnvoySource) {
	if source == nil && len(e.admin.views) == 0 {
		return
	}
	// also without a source of our own: other VMs may have one, and what is known must not grow old
	e.admin.refresh(now)
	if source != nil && e.admin.due(now, source.PollInterval) {
		e.fetch(source)
	}
}

// fetch requests all clusters, and then those that have subsets, so that the endpoints of no new cluster are known
// before that.
func (e *Envoy) fetch(source *config.EnvoySource) {
	a := e.admin
	err := e.calls.AdminPage(source, "/clusters", func(clusters []byte, status string) {
		requested := e.calls.Now()
		done := func() { now := e.calls.Now(); e.complain(now, a.received(now, clusters, status)) }
		if status != "200" || requested < a.subsets.next {
			done()
			return
		}
		withSubsets := func(body []byte, status string) {
			now := e.calls.Now()
			if problem := a.subsets.received(now, now-requested, clusters, body, status); problem != "" {
				e.calls.Warn(problem)
			}
			done()
		}
		if e.calls.AdminPage(source, subsetsPage, withSubsets) != nil {
			withSubsets(nil, refused) // the cluster's own filter answered within the call
		}
	})
	if err != nil {
		now := a.requestedAt
		a.busy, a.requestedAt = false, 0 // at the next tick again: the gateway may be starting
		e.complain(now, "the admin cluster "+source.AdminCluster+" cannot be reached: "+err.Error())
	}
}

// complain writes a problem with the admin interface to the log, unless that was done a moment ago. "" ends all
// problems.
func (e *Envoy) complain(now time.Duration, problem string) {
	if e.admin.worthLogging(now, problem) {
		e.calls.Warn(problem)
	}
}

// Scrapes implements Gateway: one VM scrapes for all.
func (e *Envoy) Scrapes(now time.Duration, shared bool) bool {
	e.scraper.sweep()
	return e.scraper.leadsScrapes(now, e.admin.serves, shared)
}

// Scrape implements Gateway.
func (e *Envoy) Scrape(now time.Duration, j *Job, report PageReport) []lb.Endpoint {
	endpoints := e.endpoints(j)
	for _, addr := range e.scraper.due(now, j.Config.Engines.Interval, j.Cluster, endpoints) {
		e.requestMetrics(j, addr, report)
	}
	return endpoints
}

// endpoints returns the endpoints of the job's cluster.
func (e *Envoy) endpoints(j *Job) []lb.Endpoint {
	var list []lb.Endpoint
	for _, e := range j.Config.EnvoyCfg.Endpoints {
		list = append(list, lb.Endpoint{Addr: e.Addr, Weight: e.Weight})
	}
	if view := e.admin.views[j.Cluster]; view != nil && list == nil {
		list = view.Endpoints
	}
	return list
}

// requestMetrics requests the metrics of one engine.
func (e *Envoy) requestMetrics(j *Job, addr string, report PageReport) {
	answered := func(page []byte, result string) {
		e.scraper.finished(e.calls.Now(), j.Config.Engines.Interval, j.Cluster, addr, report(addr, page, result))
	}
	if e.calls.MetricsPage(withPort(addr, j.Config.Engines.Port), j.Config, answered) != nil {
		answered(nil, ScrapeUnreachable)
	}
}
