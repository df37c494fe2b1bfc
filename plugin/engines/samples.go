package engines

import (
	"maps"
	"slices"
	"time"

	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/discovery"
	"github.com/warmgate/warmgate/plugin/endpoints"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/process"
	"github.com/warmgate/warmgate/plugin/stats"
)

// pendingSamples are the samples of one cluster that have not been published yet.
type pendingSamples struct {
	config   *config.Config // of the latest page or report
	targets  []string
	scraped  map[string]engines.Sample   // by address
	reported map[string]engines.Sample   // from load reports: with fewer fields, they only complete scraped ones
	frozen   map[string]engines.PageMark // pages that are known to stand still, by address
	servers  map[string]serverRanks      // whose ranks were looked for, by address
	since    time.Duration               // when there was first something to publish, 0 before
	listed   map[string]bool             // endpoints that there are; nil: not known, none is dropped
}

// pendingOf returns the pending samples of a cluster.
func (s *Scraping) pendingOf(cluster string) *pendingSamples {
	p := s.pending[cluster]
	if p == nil {
		p = &pendingSamples{
			scraped: map[string]engines.Sample{}, reported: map[string]engines.Sample{},
			frozen: map[string]engines.PageMark{}, servers: map[string]serverRanks{},
		}
		s.pending[cluster] = p
	}
	return p
}

// publishSamples writes pending samples into shared memory, beside those of other VMs. With Redis it first looks up
// what is in flight at their endpoints.
func (s *Scraping) publishSamples(now time.Duration) {
	for name, p := range s.pending {
		if len(p.scraped)+len(p.reported)+len(p.frozen)+len(p.servers) == 0 {
			delete(s.pending, name)
			continue
		}
		if p.since == 0 {
			p.since = now
		}
		if now-p.since < p.collectFor(s.Kind) {
			continue
		}
		delete(s.pending, name)
		if p.config == nil || !p.config.UsesRedis() {
			s.publishCluster(now, name, p)
			continue
		}
		addrs := p.addrs()
		s.counts.RemoteLoads(now, p.config, name, addrs, func(loads []lb.Load, err error) {
			if err == nil {
				p.setInflight(addrs, loads)
			}
			s.publishCluster(now, name, p)
		})
	}
}

// collectFor returns how long samples are collected before they are published. Each publication makes every VM read all
// samples, and those of many endpoints arrive one by one. In Higress all are read at once, so nothing is collected.
func (p *pendingSamples) collectFor(kind config.Host) time.Duration {
	const together = 64
	if len(p.listed) < together || p.config == nil || kind == config.Higress {
		return 0
	}
	return min(time.Duration(len(p.listed)/together)*process.TickPeriod, p.config.Engines.Interval/2)
}

func (p *pendingSamples) addrs() (addrs []string) {
	for addr := range p.scraped {
		addrs = append(addrs, addr)
	}
	for addr := range p.reported {
		addrs = append(addrs, addr)
	}
	return addrs
}

// setInflight sets what was in flight at the endpoints when their samples were taken.
func (p *pendingSamples) setInflight(addrs []string, loads []lb.Load) {
	for i, addr := range addrs {
		for _, list := range [2]map[string]engines.Sample{p.scraped, p.reported} {
			if r, there := list[addr]; there {
				r.Inflight, r.Counted = loads[i], true
				list[addr] = r
			}
		}
	}
}

// publishCluster writes the samples of one cluster. A swap that is lost is tried again at the next tick.
func (s *Scraping) publishCluster(now time.Duration, name string, p *pendingSamples) {
	key := process.KeySamples + name
	raw, cas, _ := s.GW.KV().Get(key) // where there is nothing yet, the last VM to write wins
	all, err := discovery.ParseEngineSamples(raw)
	if err != nil || len(p.scraped) > 0 && !slices.Equal(all.Targets, p.targets) {
		old := all // with other targets; what becomes of caches is followed on
		all = discovery.NewEngineSamples()
		maps.Copy(all.Gone, old.Gone)
		maps.Copy(all.Gone, old.By)
	}
	lost, doubted := p.mergeInto(&all, now)
	if s.GW.KV().Set(key, all.Append(nil), cas) == nil {
		s.Stats.Count(statname.With(stats.Scrapes, "result", endpoints.ScrapeFrozen), p.countFrozen(&all))
		s.reportLosses(now, name, lost, doubted)
		return
	}
	if s.pending[name] == nil {
		s.pending[name] = p
	}
}

// reportLosses counts and logs caches that are lost, and logs those that seem to be lost far too often.
func (s *Scraping) reportLosses(now time.Duration, cluster string, lost, doubted []string) {
	for _, text := range lost {
		s.Stats.CountIf(stats.OfCluster(stats.Losses, cluster), 1)
		s.GW.Log(host.Warn, "cluster="+cluster+" "+text)
	}
	for _, text := range doubted {
		s.faults.log(now, cluster, text)
	}
}

// countFrozen returns how many of the pages that were scraped stand still.
func (p *pendingSamples) countFrozen(all *discovery.EngineSamples) (n uint64) {
	for addr := range p.scraped {
		if r := all.By[addr]; r.Frozen && r.CountsTokens() {
			n++
		}
	}
	return n
}

// mergeInto merges the samples into those that are published. It returns what followCaches does.
func (p *pendingSamples) mergeInto(all *discovery.EngineSamples, now time.Duration) (lost, doubted []string) {
	if len(p.scraped) > 0 {
		all.Targets = p.targets
	}
	lost, doubted = followCaches(p.scraped, all)
	p.dropRanks(now, all)
	for addr, r := range p.scraped {
		known, there := all.By[addr]
		switch {
		case r.ScrapedAt > known.ScrapedAt:
			if known.At > r.At { // a load report came after the scrape
				r.Snapshot.UpdateReport(&known.Snapshot)
				r.At, r.Inflight, r.Counted = known.At, known.Inflight, known.Counted
			}
			r.FreshAt = max(r.FreshAt, known.FreshAt)
			r.Frozen = known.Frozen && r.Mark() == known.Mark()
			all.By[addr] = r
		case there:
			known.FreshAt = max(known.FreshAt, r.FreshAt)
			all.By[addr] = known
		}
	}
	for addr, r := range p.reported {
		known := all.By[addr]
		if r.At <= known.At {
			continue
		}
		l := known.Snapshot
		l.Update(&r.Snapshot)
		r.Snapshot, r.Page, r.ScrapedAt, r.Frozen = l, known.Page, known.ScrapedAt, known.Frozen
		r.LostAt, r.ShownAt = known.LostAt, known.ShownAt
		all.By[addr] = r
	}
	for addr, page := range p.frozen {
		if r, there := all.By[addr]; there && r.Mark() == page {
			r.Frozen = true
			all.By[addr] = r
		}
	}
	for addr, r := range all.By {
		if p.listed != nil && !p.listed[lb.ServerOf(addr)] || now-r.FreshAt > demandAge {
			delete(all.By, addr)
			all.Gone[addr] = r
		}
	}
	forget(all.Gone, now)
	return lost, doubted
}

// refreshSamples reads what the VMs have published of the clusters that this one needs.
func (s *Scraping) refreshSamples(now time.Duration) {
	s.clusters.EachEngines(func(m *Cluster) {
		if m.neededAt > 0 {
			s.refreshCluster(now, m)
		}
	})
}

func (s *Scraping) refreshCluster(now time.Duration, m *Cluster) {
	raw, version, err := s.GW.KV().Get(process.KeySamples + m.name)
	if err != nil || version == m.version {
		return
	}
	all, err := discovery.ParseEngineSamples(raw)
	if err != nil {
		return
	}
	m.version = version
	m.engines.Update(now, all.Targets, all.By)
	m.sampledAt = 0
	m.targets, m.pageDigests = all.Targets, map[string]uint64{}
	for addr, r := range all.By {
		m.sampledAt = max(m.sampledAt, r.FreshAt)
		m.pageDigests[addr] = r.Page
	}
	if m.config == nil {
		return
	}
	for _, addr := range m.engines.StandsStill(m.config.Engines.StaleAfter) {
		s.addFrozen(now, m.name, addr, all.By[addr])
	}
}

// addFrozen has all VMs know that the page of an endpoint stands still.
func (s *Scraping) addFrozen(now time.Duration, cluster, addr string, r engines.Sample) {
	s.pendingOf(cluster).frozen[addr] = r.Mark()
	if r.CountsTokens() {
		s.faults.log(now, cluster, addr+" answers, but its metrics stand still: they are ignored until they change")
	}
}
