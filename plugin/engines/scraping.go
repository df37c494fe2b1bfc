package engines

import (
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/metrics"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/endpoints"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/stats"
)

// maxTargets is how many metrics are looked for by name in one cluster.
const maxTargets = metrics.MaxTargets

// Scraping is the part of a VM that gets the metrics of engines, from scrapes and from load reports in responses. Which
// metrics are needed is in demand.go, which engines are scraped when in scrapejob.go, how VMs share samples in
// samples.go.
type Scraping struct {
	*host.Env
	inForce  func() []*config.Config // the newest first
	clusters Clusters
	counts   Counts
	demand   demand
	faults   *faults
	parsers  map[string]*metrics.Parser // by engine and targets
	pending  map[string]*pendingSamples // by cluster
}

// NewScraping returns one that knows of no metrics yet. inForce returns the configurations that are in force, the
// newest first.
func NewScraping(e *host.Env, inForce func() []*config.Config, cs Clusters, n Counts) *Scraping {
	return &Scraping{
		Env: e, inForce: inForce, clusters: cs, counts: n, demand: newDemand(e),
		parsers: map[string]*metrics.Parser{}, pending: map[string]*pendingSamples{},
		faults: &faults{env: e, loggedAt: map[string]time.Duration{}},
	}
}

// NewLists returns lists of models of which none was read. They share the log of faults.
func (s *Scraping) NewLists() *Lists {
	return &Lists{Env: s.Env, clusters: s.clusters, faults: s.faults, held: map[*Waiter]time.Duration{}}
}

// Tick announces what this VM needs, scrapes what is due, and exchanges samples with the other VMs.
func (s *Scraping) Tick(now time.Duration) {
	s.demand.announce(now)
	s.scrapeDue(now)
	s.publishSamples(now)
	s.refreshSamples(now)
}

// NeededBy notes that a request needs the metrics of its cluster's engines, if it does.
func (s *Scraping) NeededBy(r *Request, m *Cluster, c *config.Config) {
	if !c.Scrapes(s.Kind) && !c.Engines.ORCA {
		return
	}
	if m.neededAt == 0 { // what another VM has published is read at once
		m.neededAt = s.Clock()
		s.refreshSamples(s.Clock())
	}
	s.demand.need(m, c)
	m.requests[r] = struct{}{}
	s.scrapeFor(r.Context, m, c)
}

// NeedAlone notes that the metrics of a cluster are needed, also while no request needs them, and has them read for the
// one with that context, 0 for none.
func (s *Scraping) NeedAlone(request uint32, m *Cluster, c *config.Config) {
	if !c.Scrapes(s.Kind) {
		return
	}
	s.demand.need(m, c)
	if request != 0 {
		s.scrapeFor(request, m, c)
	}
}

// addPage takes an engine's page, and reports whether it could be used. result is endpoints.ScrapeOK, or why there is
// no page.
func (s *Scraping) addPage(now time.Duration, j *scrapeJob, addr string, page []byte, result string) bool {
	p := s.pendingOf(j.Cluster)
	p.config = j.Config
	if !slices.Equal(p.targets, j.targets) { // samples that are there have other ones
		p.targets, p.scraped = j.targets, map[string]engines.Sample{}
	}
	r := engines.Sample{At: now, ScrapedAt: now, FreshAt: now}
	r.Page = xxhash.Sum64(page) ^ j.reading()
	if j.stored && result == endpoints.ScrapeOK && j.keepSamples(now, p, addr, r.Page) {
		return true
	}
	parser, err := s.parser(j)
	if err != nil {
		s.faults.log(now, j.Cluster, err.Error())
		return false
	}
	var ranks []metrics.Snapshot
	if result == endpoints.ScrapeOK {
		if j.ranked {
			ranks = parser.ParseRanks(page, &r.Snapshot)
		} else {
			parser.Parse(page, &r.Snapshot)
		}
		if r.Engine == metrics.AnyEngine && !hasTarget(&r.Snapshot, len(j.targets)) {
			result = endpoints.ScrapeUnreadable
		}
	}
	p.lostRanks(j, addr, result)
	kind, _, _ := strings.Cut(result, " ")
	s.Stats.Count(statname.With(stats.Scrapes, "result", kind), 1)
	if result == endpoints.ScrapeNone && !j.Config.ByMetrics() { // they would help, but no policy depends on them
		return false
	}
	if result != endpoints.ScrapeOK {
		s.faults.log(now, j.Cluster, addr+" "+faultOf(result, j.Config))
		return false
	}
	s.addSamples(j, addr, &r, ranks)
	wanted := neededFields(j.Config, s.Kind, j.targets)
	if j.Config.Engines.Order == engines.ByLoad {
		wanted = append(wanted, metrics.KVUse)
	}
	if missing := parser.Missing(&r.Snapshot, wanted...); len(missing) > 0 {
		s.faults.log(now, j.Cluster, addr+" reports no "+strings.Join(missing, ", "))
	}
	return true
}

// AddReport takes a load report that came with a response.
func (s *Scraping) AddReport(now time.Duration, c *config.Config, cluster, addr, value string) {
	if _, isRank := lb.RankOf(addr); isRank { // it is of the whole server
		return
	}
	r := engines.Sample{At: now, FreshAt: now}
	r.Inflight, r.Counted = s.counts.LoadAt(c, cluster, addr)
	if !metrics.ParseORCA([]byte(value), &r.Snapshot) {
		s.faults.log(now, cluster, addr+" sends a load report that cannot be read: "+
			"want TEXT or JSON, with num_requests_waiting or kv_cache_usage_perc")
		return
	}
	p := s.pendingOf(cluster)
	p.config, p.reported[addr] = c, r
}

// parser returns the parser for a job.
func (s *Scraping) parser(j *scrapeJob) (*metrics.Parser, error) {
	key := j.Config.Engines.Engine + "\n" + strings.Join(j.targets, "\n")
	if p := s.parsers[key]; p != nil {
		return p, nil
	}
	p, err := metrics.New(j.Config.Engines.Kind(), j.targets...)
	if err != nil {
		return nil, err
	}
	if len(s.parsers) >= maxDemands { // those of old configurations
		clear(s.parsers)
	}
	s.parsers[key] = p
	return p, nil
}

// hasTarget reports whether a load has one of the first n targets.
func hasTarget(l *metrics.Snapshot, n int) bool {
	for i := range n {
		if _, ok := l.Value(metrics.Target(i)); ok {
			return true
		}
	}
	return false
}

// faultOf returns in words why there is no page.
func faultOf(result string, c *config.Config) string {
	switch result {
	case endpoints.ScrapeUnreadable:
		engine := c.Engines.Engine
		if c.Engines.Kind() == metrics.AnyEngine {
			engine = "a known engine"
		}
		return "answers, but not with metrics of " + engine
	case endpoints.ScrapeNone:
		return "has no stored metrics: its health check must request them, with store_metrics"
	}
	return "scrape failed: " + result
}
