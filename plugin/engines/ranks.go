package engines

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/metrics"
	"github.com/warmgate/warmgate/plugin/discovery"
	"github.com/warmgate/warmgate/plugin/endpoints"
)

// This file has the pages of servers with data-parallel ranks become a sample for each rank, where a rule takes ranks
// for endpoints.

// Each rank that a page tells apart has an address.
const _ = uint(lb.MaxRanks - metrics.MaxRanks)

// serverRanks is what a server's latest page has become.
type serverRanks struct {
	n     int  // samples of ranks
	whole bool // there is one of the server, too
	lost  bool // it cannot be reached: what it had applies for as long as other samples do
}

// reading is what a sample depends on beside the page, as a part of its digest.
func (j *scrapeJob) reading() uint64 {
	how := uint64(j.Config.Engines.Kind())
	if j.ranked {
		how |= 1 << 8
	}
	if j.whole {
		how |= 1 << 9
	}
	return how
}

// keepSamples keeps the samples of a server whose page has not changed, and reports whether that is so. Such a page may
// be old, or nothing has happened: its samples still apply, but their time is unknown.
func (j *scrapeJob) keepSamples(now time.Duration, p *pendingSamples, addr string, page uint64) (kept bool) {
	for rank, of := 0, addr; rank <= lb.MaxRanks; rank++ {
		if digest, known := j.pageDigests[of]; known && digest == page {
			p.scraped[of], kept = engines.Sample{FreshAt: now}, true
		} else if of != addr {
			break
		}
		of = lb.RankAddr(addr, rank)
	}
	return kept
}

// addSamples adds the sample of a server, and those of its ranks.
func (s *Scraping) addSamples(j *scrapeJob, addr string, of *engines.Sample, ranks []metrics.Snapshot) {
	p, whole := s.pending[j.Cluster], j.whole || len(ranks) == 0
	add := func(at string) {
		of.Inflight, of.Counted = s.counts.LoadAt(j.Config, j.Cluster, at)
		p.scraped[at] = *of
	}
	if whole {
		add(addr)
	}
	for i := range ranks {
		of.Snapshot = ranks[i]
		add(lb.RankAddr(addr, i))
	}
	if !j.ranked {
		return
	}
	p.servers[addr] = serverRanks{n: len(ranks), whole: whole}
	if j.Config.Ranks.Count > 1 && len(ranks) == 0 {
		s.faults.log(of.At, j.Cluster, addr+" shows no metrics by rank, though ranks.count says that it has several")
	}
}

// lostRanks has a server that stays away stand for itself until its metrics are read again: it may come back with fewer
// ranks, and would refuse a request for one that it has no longer.
func (p *pendingSamples) lostRanks(j *scrapeJob, addr, result string) {
	if result != endpoints.ScrapeUnreachable && result != endpoints.ScrapeNone {
		return
	}
	if _, known := j.pageDigests[lb.RankAddr(addr, 0)]; known {
		p.servers[addr] = serverRanks{whole: true, lost: true}
	}
}

// dropRanks drops the samples of ranks that servers have no longer, and of servers that are no endpoints. Those that
// come back are compared with what they were.
func (p *pendingSamples) dropRanks(now time.Duration, all *discovery.EngineSamples) {
	for addr, r := range all.By {
		rank, isRank := lb.RankOf(addr)
		of, read := p.servers[lb.ServerOf(addr)]
		if of.lost && now-r.FreshAt <= p.config.Engines.StaleAfter {
			continue // one scrape that fails makes no server idle
		}
		if read && (isRank && rank >= of.n || !isRank && !of.whole) {
			delete(all.By, addr)
			all.Gone[addr] = r
		}
	}
}
