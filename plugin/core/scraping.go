package core

import (
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/metrics"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/endpoints"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/stats"
)

// maxTargets is how many metrics are looked for by name in one cluster.
const maxTargets = metrics.MaxTargets

// scraping is the part of a VM that gets the metrics of engines, from scrapes and from load reports in responses. Which
// metrics are needed is in demand.go, which engines are scraped when in scrapejob.go, how VMs share samples in
// samples.go.
type scraping struct {
	*host.Env
	configs  *configs
	clusters clusters
	stores   *stores
	demand   demand
	parsers  map[string]*metrics.Parser // by engine and targets
	pending  map[string]*pendingSamples // by cluster
	faults   map[string]time.Duration   // by cluster and text: when it was last logged
}

func newScraping(e *host.Env, in *configs, cs clusters, st *stores) *scraping {
	return &scraping{
		Env: e, configs: in, clusters: cs, stores: st, demand: newDemand(e),
		parsers: map[string]*metrics.Parser{}, pending: map[string]*pendingSamples{},
		faults: map[string]time.Duration{},
	}
}

// tick announces what this VM needs, scrapes what is due, and exchanges samples with the other VMs.
func (s *scraping) tick(now time.Duration) {
	s.demand.announce(now)
	s.scrapeDue(now)
	s.publishSamples(now)
	s.refreshSamples(now)
}

// neededBy notes that a request needs the metrics of its cluster's engines, if it does.
func (s *scraping) neededBy(r *placement) {
	m := &r.cluster.metrics
	if !r.cfg.Scrapes(s.Kind) && !r.cfg.Engines.ORCA {
		return
	}
	if m.neededAt == 0 { // what another VM has published is read at once
		m.neededAt = s.Now()
		s.refreshSamples(s.Now())
	}
	s.demand.need(r.cluster, r.cfg)
	m.streams[r] = struct{}{}
	s.scrapeFor(r.context, r.cluster, r.cfg)
}

// addPage takes an engine's page, and reports whether it could be used. result is endpoints.ScrapeOK, or why there is
// no page.
func (s *scraping) addPage(now time.Duration, j *scrapeJob, addr string, page []byte, result string) bool {
	p := s.pendingOf(j.Cluster)
	p.config = j.Config
	if !slices.Equal(p.targets, j.targets) { // samples that are there have other ones
		p.targets, p.scraped = j.targets, map[string]lb.EngineSample{}
	}
	r := lb.EngineSample{At: now, ScrapedAt: now, FreshAt: now}
	r.Page = xxhash.Sum64(page) ^ uint64(j.Config.Engines.Kind())
	if j.stored && result == endpoints.ScrapeOK && r.Page == j.pageDigests[addr] {
		// A page that has not changed may be old, or nothing has happened: its sample still applies, but its time is
		// unknown.
		p.scraped[addr] = lb.EngineSample{FreshAt: now}
		return true
	}
	parser, err := s.parser(j)
	if err != nil {
		s.logFault(now, j.Cluster, err.Error())
		return false
	}
	if result == endpoints.ScrapeOK {
		parser.Parse(page, &r.Snapshot)
		if r.Engine == metrics.AnyEngine && !hasTarget(&r.Snapshot, len(j.targets)) {
			result = endpoints.ScrapeUnreadable
		}
	}
	kind, _, _ := strings.Cut(result, " ")
	s.Stats.Count(statname.With(stats.Scrapes, "result", kind), 1)
	if result == endpoints.ScrapeNone && !j.Config.ByMetrics() { // they would help, but no policy depends on them
		return false
	}
	if result != endpoints.ScrapeOK {
		s.logFault(now, j.Cluster, addr+" "+faultOf(result, j.Config))
		return false
	}
	r.Inflight, r.Counted = s.stores.loadAt(j.Config, j.Cluster, addr)
	p.scraped[addr] = r
	wanted := neededFields(j.Config, s.Kind, j.targets)
	if j.Config.Engines.Order == lb.ByLoad {
		wanted = append(wanted, metrics.KVUse)
	}
	if missing := parser.Missing(&r.Snapshot, wanted...); len(missing) > 0 {
		s.logFault(now, j.Cluster, addr+" reports no "+strings.Join(missing, ", "))
	}
	return true
}

// addReport takes a load report that came with a response.
func (s *scraping) addReport(now time.Duration, c *config.Config, cluster, addr, value string) {
	r := lb.EngineSample{At: now, FreshAt: now}
	r.Inflight, r.Counted = s.stores.loadAt(c, cluster, addr)
	if !metrics.ParseORCA([]byte(value), &r.Snapshot) {
		s.logFault(now, cluster, addr+" sends a load report that cannot be read: "+
			"want TEXT or JSON, with num_requests_waiting or kv_cache_usage_perc")
		return
	}
	p := s.pendingOf(cluster)
	p.config, p.reported[addr] = c, r
}

// parser returns the parser for a job.
func (s *scraping) parser(j *scrapeJob) (*metrics.Parser, error) {
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

// neededFields returns the fields that a policy depends on, of samples with these targets.
func neededFields(c *config.Config, kind config.Host, targets []string) []metrics.Field {
	if !c.Scrapes(kind) { // load reports have no more
		return []metrics.Field{metrics.Waiting}
	}
	var fields []metrics.Field
	if c.Engines.Order == lb.ByLoad || c.Push == lb.Pending {
		fields = append(fields, metrics.Running, metrics.Waiting)
	}
	if i := slices.Index(targets, c.Engines.Target); i >= 0 && c.Engines.Order != lb.ByLoad {
		fields = append(fields, metrics.Target(i))
	}
	return fields
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

const (
	// maxFaults is how many faults are remembered as logged.
	maxFaults = 256
	// faultEvery is how often a fault that lasts is logged again.
	faultEvery = 10 * time.Minute
)

// logFault logs what is wrong with an engine's metrics, once.
func (s *scraping) logFault(now time.Duration, cluster, text string) {
	key := cluster + " " + text
	if at, logged := s.faults[key]; logged && now-at < faultEvery {
		return
	}
	if len(s.faults) >= maxFaults {
		for k, at := range s.faults {
			if now-at >= faultEvery {
				delete(s.faults, k)
			}
		}
		if len(s.faults) >= maxFaults {
			return
		}
	}
	s.faults[key] = now
	s.GW.Log(host.Warn, "cluster="+cluster+" "+text)
}
