package core

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
)

// Workers know which clusters their requests need metrics of; the VM that asks the engines may have no requests. So
// they tell each other in shared memory.

const (
	// demandAge is for how long engines are scraped after the last request, so that the next one finds fresh metrics.
	demandAge = clusterAge
	// announceEvery is how often it is told that metrics are still needed.
	announceEvery = 5 * time.Second
	// maxDemands is how many clusters and rules may need metrics at the same time.
	maxDemands = 256
)

// metricsDemand is a cluster whose metrics are needed, and by what configuration: its MetricsID.
type metricsDemand struct {
	cluster string
	id      uint64
}

// demandList is when each was last needed.
type demandList map[metricsDemand]time.Duration

// parseDemand reads the shared value: for each the length of the name u16, the name, the id u64, the time i64. What
// is damaged is left out.
func parseDemand(raw []byte) demandList {
	list := demandList{}
	for len(raw) > 2 {
		size := int(binary.LittleEndian.Uint16(raw))
		if raw = raw[2:]; len(raw) < size+16 {
			break
		}
		m := metricsDemand{string(raw[:size]), binary.LittleEndian.Uint64(raw[size:])}
		list[m] = time.Duration(binary.LittleEndian.Uint64(raw[size+8:]))
		raw = raw[size+16:]
	}
	return list
}

// append returns the shared value without what is no longer needed.
func (l demandList) append(out []byte, now time.Duration) []byte {
	for m, at := range l {
		if now-at > demandAge || len(m.cluster) > 1<<16-1 {
			continue
		}
		out = binary.LittleEndian.AppendUint16(out, uint16(len(m.cluster)))
		out = append(out, m.cluster...)
		out = binary.LittleEndian.AppendUint64(out, m.id)
		out = binary.LittleEndian.AppendUint64(out, uint64(at))
	}
	if len(out) == 0 {
		out = append(out, 0) // the gateway keeps no empty value
	}
	return out
}

// demand notes that a request needs the metrics of its cluster.
func (v *VM) demand(cl *cluster, c *config.Config) {
	cl.demandedAt, cl.metricsConfig = v.now(), c
	m := metricsDemand{cl.name, c.MetricsID()}
	v.needed[m] = cl.demandedAt
	v.unannounced = v.unannounced || !v.announced[m]
}

// announceDemand tells the other VMs which metrics this one needs, unless they know. A swap that is lost is tried again
// at the next tick.
func (v *VM) announceDemand(now time.Duration) {
	if len(v.needed) == 0 || now-v.announcedAt < announceEvery && !v.unannounced {
		return
	}
	raw, cas, err := v.gw.KV().Get(keyDemand)
	if err != nil {
		return
	}
	all := parseDemand(raw)
	for m, at := range v.needed {
		if _, known := all[m]; known || len(all) < maxDemands {
			all[m] = max(all[m], at)
		}
	}
	if v.gw.KV().Set(keyDemand, all.append(nil, now), cas) == nil {
		if len(v.announced) >= maxDemands { // those of old configurations
			clear(v.announced)
		}
		for m := range v.needed {
			v.announced[m] = true
		}
		clear(v.needed)
		v.announcedAt, v.unannounced = now, false
	}
}

// ScrapeJob is what the engines of one cluster are asked for.
type ScrapeJob struct {
	cluster   string
	config    *config.Config // of the first of the rules
	others    []*ScrapeJob   // of rules that list other endpoints of it
	targets   []string       // of all rules
	request   uint32         // context of a request to the cluster that is being served, 0 for none
	sampledAt time.Duration  // when the latest of what is known was

	stored bool              // pages are those that the gateway has stored, perhaps long ago
	pages  map[string]uint64 // digests of those that what is known is from, by address
}

// scrapeJobs returns what engines are to be asked for under the newest configuration, by name of the cluster.
func (v *VM) scrapeJobs(now time.Duration) map[string]*ScrapeJob {
	raw, _, err := v.gw.KV().Get(keyDemand)
	if err != nil {
		return nil
	}
	list := parseDemand(raw)
	jobs := map[string]*ScrapeJob{}
	for i := len(v.inForce) - 1; i >= 0; i-- { // the newest first
		for _, c := range v.inForce[i].set.All() {
			if c.Scrapes(v.kind) {
				v.addJobs(now, jobs, list, c)
			}
		}
	}
	for _, j := range jobs {
		slices.Sort(j.targets) // so that all VMs have them in one order
		if cl := v.clusters[j.cluster]; cl != nil && slices.Equal(cl.targets, j.targets) {
			j.pages = cl.pageDigests
		}
		for _, m := range j.others {
			m.targets, m.pages = j.targets, j.pages
		}
	}
	return jobs
}

// addJobs adds what is needed under one configuration. The first to need a cluster, or to list these endpoints of it,
// says how they are asked.
func (v *VM) addJobs(now time.Duration, jobs map[string]*ScrapeJob, list demandList, c *config.Config) {
	for m, at := range list {
		if m.id != c.MetricsID() || now-at > demandAge {
			continue
		}
		j := jobs[m.cluster]
		if j == nil {
			j = v.newJob(now, m.cluster, c)
			jobs[m.cluster] = j
		} else if !slices.ContainsFunc(append(j.others, j), func(k *ScrapeJob) bool { return k.lists(c) }) {
			j.others = append(j.others, v.newJob(now, m.cluster, c))
		}
		if t := c.Engines.Target; t != "" && !slices.Contains(j.targets, t) && len(j.targets) < maxTargets {
			j.targets = append(j.targets, t)
		}
	}
}

// lists says whether the endpoints of the job are those of the configuration.
func (j *ScrapeJob) lists(c *config.Config) bool {
	return slices.EqualFunc(j.config.EnvoyCfg.Endpoints, c.EnvoyCfg.Endpoints, func(a, b config.StaticEndpoint) bool { return a.Addr == b.Addr })
}

func (v *VM) newJob(now time.Duration, cluster string, c *config.Config) *ScrapeJob {
	j := &ScrapeJob{cluster: cluster, config: c, stored: v.kind == config.Higress}
	if cl := v.clusters[cluster]; cl != nil {
		if j.stored && now-cl.sampledAt >= c.Engines.Interval { // another VM may have read them a moment ago
			v.refreshCluster(now, cl)
		}
		j.sampledAt = cl.sampledAt
		for s := range cl.streams {
			j.request = s.context
			break
		}
	}
	return j
}

// scrapeDue has the engines asked that are due.
func (v *VM) scrapeDue(now time.Duration) {
	jobs, shared := v.scrapeJobs(now), false
	for _, j := range jobs {
		shared = shared || j.config.UsesRedis()
	}
	if !v.gw.Scrapes(now, shared) {
		return
	}
	for _, j := range jobs {
		v.scrapeCluster(now, j)
	}
}

// scrapeCluster has the engines of a cluster asked that are due, and notes which there are once all lists are known.
func (v *VM) scrapeCluster(now time.Duration, j *ScrapeJob) {
	listed, known := map[string]bool{}, true
	for _, j := range append(j.others, j) {
		endpoints := v.gw.Scrape(now, j, func(addr string, page []byte, result string) bool {
			return v.addPage(v.gw.Now(), j, addr, page, result)
		})
		known = known && len(endpoints) > 0
		for i := range endpoints {
			listed[endpoints[i].Addr] = true
		}
	}
	if known {
		v.readers.pendingOf(j.cluster).listed = listed
	}
}

// scrapeFor has the pages that the gateway has stored read at once, for a request that finds nothing fresh: the gateway
// shows them to requests only, and where these are rare none is being served at a tick. A VM does so once in an
// interval at most.
func (v *VM) scrapeFor(s *Stream) {
	now, cl, c := v.now(), s.cluster, s.cfg
	fresh := func() bool { return cl.sampledAt > 0 && now-cl.sampledAt <= c.Engines.StaleAfter }
	if v.kind != config.Higress || !c.Scrapes(v.kind) || fresh() || cl.attemptedAt > 0 && now-cl.attemptedAt < c.Engines.Interval {
		return
	}
	if v.refreshCluster(now, cl); fresh() { // another VM has read them
		return
	}
	cl.attemptedAt = now
	v.announceDemand(now) // so that it is known what else is asked for
	j := v.scrapeJobs(now)[cl.name]
	if j == nil {
		return
	}
	j.request = s.context
	v.scrapeCluster(now, j)
	// With other gateways it takes a moment to learn what is in flight. The request goes without.
	if h := v.readers.pending[cl.name]; h != nil && len(h.scraped) > 0 {
		delete(v.readers.pending, cl.name)
		v.publishCluster(now, cl.name, h)
		v.refreshCluster(now, cl)
	}
}

// loadAt returns what is in flight at an endpoint, over all workers. With other gateways it is not known here.
func (v *VM) loadAt(c *config.Config, cluster, addr string) (l lb.Load, known bool) {
	if c.UsesRedis() {
		return lb.Load{}, false
	}
	loads, err := v.store.Loads(cluster, []string{addr}, nil)
	if err != nil {
		return lb.Load{}, false
	}
	return loads[0], true
}
