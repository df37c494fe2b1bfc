package engines

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/internal/order"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/endpoints"
)

// scrapeJob is what the engines of one cluster are scraped for.
type scrapeJob struct {
	endpoints.Job              // with the configuration of the first of the rules
	others        []*scrapeJob // of rules that list other endpoints of it
	targets       []string     // of all rules

	stored      bool              // pages are those that the gateway has stored, perhaps long ago
	pageDigests map[string]uint64 // of the pages that samples are from, by address

	whole, ranked bool // rules take a server for one endpoint, or its ranks for several
}

// lists reports whether the endpoints of the job are those of the configuration.
func (j *scrapeJob) lists(c *config.Config) bool {
	return slices.EqualFunc(j.Config.EnvoyCfg.Endpoints, c.EnvoyCfg.Endpoints,
		func(a, b config.StaticEndpoint) bool { return a.Addr == b.Addr })
}

// jobs returns what engines are to be scraped for under the configurations in force, by name of the cluster.
func (s *Scraping) jobs(now time.Duration) map[string]*scrapeJob {
	list, err := s.demand.all()
	if err != nil {
		return nil
	}
	jobs := map[string]*scrapeJob{}
	for _, c := range s.inForce() { // the newest first
		if c.Scrapes(s.Kind) {
			s.addJobs(now, jobs, list, c)
		}
	}
	for _, j := range jobs {
		order.Up(j.targets) // so that all VMs have them in one order
		if m := s.clusters.EnginesOf(j.Cluster); m != nil && slices.Equal(m.targets, j.targets) {
			j.pageDigests = m.pageDigests
		}
		for _, other := range j.others {
			other.targets, other.pageDigests = j.targets, j.pageDigests
			other.whole, other.ranked = j.whole, j.ranked
		}
	}
	return jobs
}

// addJobs adds what is needed under one configuration. The first that needs a cluster, or lists these endpoints of it,
// decides how they are scraped.
func (s *Scraping) addJobs(now time.Duration, jobs map[string]*scrapeJob, list demandList, c *config.Config) {
	for m, at := range list {
		if m.id != c.MetricsID() || now-at > demandAge {
			continue
		}
		j := jobs[m.cluster]
		if j == nil {
			j = s.newJob(now, m.cluster, c)
			jobs[m.cluster] = j
		} else if !slices.ContainsFunc(append(j.others, j), func(k *scrapeJob) bool { return k.lists(c) }) {
			j.others = append(j.others, s.newJob(now, m.cluster, c))
		}
		j.whole, j.ranked = j.whole || !c.Ranks.Apart, j.ranked || c.Ranks.Apart
		if t := c.Engines.Target; t != "" && !slices.Contains(j.targets, t) && len(j.targets) < maxTargets {
			j.targets = append(j.targets, t)
		}
	}
}

func (s *Scraping) newJob(now time.Duration, cluster string, c *config.Config) *scrapeJob {
	j := &scrapeJob{Job: endpoints.Job{Cluster: cluster, Config: c}, stored: s.Kind == config.Higress}
	if m := s.clusters.EnginesOf(cluster); m != nil {
		if j.stored && now-m.sampledAt >= c.Engines.Interval { // another VM may have read them a moment ago
			s.refreshCluster(now, m)
		}
		j.SampledAt = m.sampledAt
		for request := range m.requests {
			j.Request = request.Context
			break
		}
	}
	return j
}

// scrapeDue scrapes the engines that are due.
func (s *Scraping) scrapeDue(now time.Duration) {
	jobs, shared := s.jobs(now), false
	for _, j := range jobs {
		shared = shared || j.Config.UsesRedis()
	}
	if !s.GW.Scrapes(now, shared) {
		return
	}
	for _, j := range jobs {
		s.scrapeCluster(now, j)
	}
}

// scrapeCluster scrapes the engines of a cluster that are due, and notes which there are once all lists are known.
func (s *Scraping) scrapeCluster(now time.Duration, j *scrapeJob) {
	listed, known := map[string]bool{}, true
	for _, j := range append(j.others, j) {
		list := s.GW.Scrape(now, &j.Job, func(addr string, page []byte, result string) bool {
			return s.addPage(s.GW.Now(), j, addr, page, result)
		})
		known = known && len(list) > 0
		for i := range list {
			listed[list[i].Addr] = true
		}
	}
	if known {
		s.pendingOf(j.Cluster).listed = listed
	}
}

// scrapeFor reads the pages that the gateway has stored at once, for a request that finds no fresh sample: Higress
// shows them to requests only, and where these are rare none is being served at a tick. A VM does so once in an
// interval at most.
func (s *Scraping) scrapeFor(request uint32, m *Cluster, c *config.Config) {
	now := s.Clock()
	fresh := func() bool { return m.sampledAt > 0 && now-m.sampledAt <= c.Engines.StaleAfter }
	if s.Kind != config.Higress || !c.Scrapes(s.Kind) || fresh() {
		return
	}
	if m.attemptedAt > 0 && now-m.attemptedAt < c.Engines.Interval {
		return
	}
	if s.refreshCluster(now, m); fresh() { // another VM has read them
		return
	}
	m.attemptedAt = now
	s.demand.announce(now) // so that it is known what else is needed
	j := s.jobs(now)[m.name]
	if j == nil {
		return
	}
	j.Request = request
	s.scrapeCluster(now, j)
	// With Redis it takes a moment to learn what is in flight. The request does not wait for that.
	if p := s.pending[m.name]; p != nil && len(p.scraped) > 0 {
		delete(s.pending, m.name)
		s.publishCluster(now, m.name, p)
		s.refreshCluster(now, m)
	}
}
