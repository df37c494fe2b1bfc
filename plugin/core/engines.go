package core

import (
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/metrics"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/discovery"
)

// maxTargets is how many metrics are looked for by name in one cluster.
const maxTargets = metrics.MaxTargets

// readers keeps what this VM has heard from engines until it is published, and what it has told of their faults.
type readers struct {
	parsers map[string]*metrics.Parser // by engine and targets
	pending map[string]*pendingSamples // by cluster
	faults  map[string]time.Duration   // by cluster and text: when it was last in the log
}

// pendingSamples is what has been heard of one cluster since it was last published.
type pendingSamples struct {
	cfg      *config.Config // of the latest page or report
	targets  []string
	scraped  map[string]lb.EngineSample
	reported map[string]lb.EngineSample // load reports in responses: they say less, so they only complete what is known
	since    time.Duration              // when there was first something to publish, 0 before
	listed   map[string]bool            // endpoints that there are; nil: not known, none is dropped
}

func newReaders() *readers {
	return &readers{parsers: map[string]*metrics.Parser{}, pending: map[string]*pendingSamples{}, faults: map[string]time.Duration{}}
}

func (r *readers) pendingOf(cluster string) *pendingSamples {
	h := r.pending[cluster]
	if h == nil {
		h = &pendingSamples{scraped: map[string]lb.EngineSample{}, reported: map[string]lb.EngineSample{}}
		r.pending[cluster] = h
	}
	return h
}

// parser returns the parser for a job.
func (r *readers) parser(j *ScrapeJob) (*metrics.Parser, error) {
	key := j.config.Engines.Engine + "\n" + strings.Join(j.targets, "\n")
	if p := r.parsers[key]; p != nil {
		return p, nil
	}
	p, err := metrics.New(j.config.Engines.Kind(), j.targets...)
	if err != nil {
		return nil, err
	}
	if len(r.parsers) >= maxDemands { // those of old configurations
		clear(r.parsers)
	}
	r.parsers[key] = p
	return p, nil
}

// Results of asking an engine, as statistics count them.
const (
	ScrapeOK          = "ok"
	ScrapeUnreadable  = "unreadable" // a page without any metric of a known engine
	ScrapeTimeout     = "timeout"
	ScrapeIncomplete  = "incomplete" // it did not come to its end: cut off, too long or too slow
	ScrapeStatus      = "status"     // another than 200, which follows it
	ScrapeEncoded     = "encoded"
	ScrapeUnreachable = "unreachable"
	ScrapeNone        = "none" // the gateway has stored none
)

// addPage takes an engine's page, and says if it is of use. result is heardOK, or why there is none.
func (v *VM) addPage(now time.Duration, j *ScrapeJob, addr string, page []byte, result string) bool {
	h := v.readers.pendingOf(j.cluster)
	h.cfg = j.config
	if !slices.Equal(h.targets, j.targets) { // what is already there has other ones
		h.targets, h.scraped = j.targets, map[string]lb.EngineSample{}
	}
	r := lb.EngineSample{At: now, ScrapedAt: now, FreshAt: now}
	if j.stored {
		// It may be old, or the engine has nothing new to say: what it said still holds, and when it did is not known.
		if r.Page = xxhash.Sum64(page) ^ uint64(j.config.Engines.Kind()); result == ScrapeOK && r.Page == j.pages[addr] {
			h.scraped[addr] = lb.EngineSample{FreshAt: now}
			return true
		}
	}
	p, err := v.readers.parser(j)
	if err != nil {
		v.logFault(now, j.cluster, err.Error())
		return false
	}
	if result == ScrapeOK {
		p.Parse(page, &r.Snapshot)
		if r.Engine == metrics.AnyEngine && !tellsAny(&r.Snapshot, len(j.targets)) {
			result = ScrapeUnreadable
		}
	}
	kind, _, _ := strings.Cut(result, " ")
	v.stats.count(statScrapes+";result="+kind, 1)
	if result == ScrapeNone && !j.config.ByMetrics() { // they would be of use, but nobody has asked for them
		return false
	}
	if result != ScrapeOK {
		v.logFault(now, j.cluster, addr+" "+faultOf(result, j.config))
		return false
	}
	r.Inflight, r.Counted = v.loadAt(j.config, j.cluster, addr)
	h.scraped[addr] = r
	wanted := v.neededFields(j.config, j.targets)
	if j.config.Engines.Order == "default" {
		wanted = append(wanted, metrics.KVUse)
	}
	if missing := p.Missing(&r.Snapshot, wanted...); len(missing) > 0 {
		v.logFault(now, j.cluster, addr+" does not tell "+strings.Join(missing, ", "))
	}
	return true
}

// faultOf says why there is no page.
func faultOf(result string, c *config.Config) string {
	switch result {
	case ScrapeUnreadable:
		return "answers, but not with metrics of " + engineNamed(c)
	case ScrapeNone:
		return "has no stored metrics: its health check must ask for them, with store_metrics"
	}
	return "does not tell its metrics: " + result
}

// tellsAny says whether a load has one of the first n targets.
func tellsAny(l *metrics.Snapshot, n int) bool {
	for i := range n {
		if _, ok := l.Value(metrics.Target(i)); ok {
			return true
		}
	}
	return false
}

func engineNamed(c *config.Config) string {
	if c.Engines.Kind() == metrics.AnyEngine {
		return "a known engine"
	}
	return c.Engines.Engine
}

// neededFields returns the fields that a configuration is about, of readings with these targets.
func (v *VM) neededFields(c *config.Config, targets []string) []metrics.Field {
	if !c.Scrapes(v.kind) { // load reports tell no more
		return []metrics.Field{metrics.Waiting}
	}
	if c.Engines.Order == "default" {
		return []metrics.Field{metrics.Running, metrics.Waiting}
	}
	if i := slices.Index(targets, c.Engines.Target); i >= 0 {
		return []metrics.Field{metrics.Target(i)}
	}
	return nil
}

const (
	// maxFaults is how many faults are remembered to have been told.
	maxFaults = 256
	// faultEvery is how often a fault that lasts is told again.
	faultEvery = 10 * time.Minute
)

// logFault says in the log what is wrong with an engine's metrics, once.
func (v *VM) logFault(now time.Duration, cluster, text string) {
	faults := v.readers.faults
	key := cluster + " " + text
	if at, told := faults[key]; told && now-at < faultEvery {
		return
	}
	if len(faults) >= maxFaults {
		for k, at := range faults {
			if now-at >= faultEvery {
				delete(faults, k)
			}
		}
		if len(faults) >= maxFaults {
			return
		}
	}
	faults[key] = now
	v.gw.Log(Warn, "cluster="+cluster+" "+text)
}

// publishSamples writes what was heard into shared memory, beside what others have written. With other gateways it is
// known there only once Redis has told what is in flight.
func (v *VM) publishSamples(now time.Duration) {
	for name, h := range v.readers.pending {
		if len(h.scraped) == 0 && len(h.reported) == 0 {
			delete(v.readers.pending, name)
			continue
		}
		if h.since == 0 {
			h.since = now
		}
		if now-h.since < h.collectFor(v.kind) {
			continue
		}
		delete(v.readers.pending, name)
		if h.cfg == nil || !h.cfg.UsesRedis() {
			v.publishCluster(now, name, h)
			continue
		}
		var addrs []string
		for addr := range h.scraped {
			addrs = append(addrs, addr)
		}
		for addr := range h.reported {
			addrs = append(addrs, addr)
		}
		_, sh := v.storeOf(h.cfg)
		sh.remote.Loads(now, name, addrs, func(loads []lb.Load, err error) {
			if err == nil {
				h.setInflight(addrs, loads)
			}
			v.publishCluster(now, name, h)
		})
	}
}

// collectFor returns for how long readings are collected before they are published: every VM reads all of them each time,
// and those of many endpoints come at many times, but in Higress, where they are read at once.
func (h *pendingSamples) collectFor(host config.Host) time.Duration {
	const together = 64
	if len(h.listed) < together || h.cfg == nil || host == config.Higress {
		return 0
	}
	return min(time.Duration(len(h.listed)/together)*tickPeriod, h.cfg.Engines.Interval/2)
}

// publishCluster writes what was heard of one cluster. A swap that is lost is tried again at the next tick.
func (v *VM) publishCluster(now time.Duration, name string, h *pendingSamples) {
	key := keySamples + name
	raw, cas, _ := v.gw.KV().Get(key) // where there is nothing yet, the last VM to write wins
	all, err := discovery.ParseReadings(raw)
	if err != nil || len(h.scraped) > 0 && !slices.Equal(all.Targets, h.targets) {
		all = discovery.Readings{By: map[string]lb.EngineSample{}}
	}
	h.mergeInto(&all, now)
	if v.gw.KV().Set(key, all.Append(nil), cas) == nil || v.readers.pending[name] != nil {
		return
	}
	v.readers.pending[name] = h
}

// setInflight notes what was in flight at the endpoints when they spoke.
func (h *pendingSamples) setInflight(addrs []string, loads []lb.Load) {
	for i, addr := range addrs {
		for _, list := range [2]map[string]lb.EngineSample{h.scraped, h.reported} {
			if r, there := list[addr]; there {
				r.Inflight, r.Counted = loads[i], true
				list[addr] = r
			}
		}
	}
}

func (h *pendingSamples) mergeInto(all *discovery.Readings, now time.Duration) {
	if len(h.scraped) > 0 {
		all.Targets = h.targets
	}
	for addr, r := range h.scraped {
		known, there := all.By[addr]
		switch {
		case r.ScrapedAt > known.ScrapedAt:
			if known.At > r.At { // a load report came meanwhile
				r.Snapshot.UpdateReport(&known.Snapshot)
				r.At, r.Inflight, r.Counted = known.At, known.Inflight, known.Counted
			}
			r.FreshAt = max(r.FreshAt, known.FreshAt)
			all.By[addr] = r
		case there:
			known.FreshAt = max(known.FreshAt, r.FreshAt)
			all.By[addr] = known
		}
	}
	for addr, r := range h.reported {
		known := all.By[addr]
		if r.At <= known.At {
			continue
		}
		l := known.Snapshot
		l.Update(&r.Snapshot)
		r.Snapshot, r.Page, r.ScrapedAt = l, known.Page, known.ScrapedAt
		all.By[addr] = r
	}
	for addr, r := range all.By {
		if h.listed != nil && !h.listed[addr] || now-r.FreshAt > demandAge {
			delete(all.By, addr)
		}
	}
}

// refreshSamples reads what the VMs have published of the clusters that this one needs.
func (v *VM) refreshSamples(now time.Duration) {
	for _, cl := range v.clusters {
		if cl.demandedAt > 0 {
			v.refreshCluster(now, cl)
		}
	}
}

func (v *VM) refreshCluster(now time.Duration, cl *cluster) {
	raw, version, err := v.gw.KV().Get(keySamples + cl.name)
	if err != nil || version == cl.samplesVersion {
		return
	}
	all, err := discovery.ParseReadings(raw)
	if err != nil {
		return
	}
	cl.samplesVersion = version
	cl.engines.Update(now, all.Targets, all.By)
	cl.sampledAt = 0
	cl.targets, cl.pageDigests = all.Targets, map[string]uint64{}
	for addr, r := range all.By {
		cl.sampledAt = max(cl.sampledAt, r.FreshAt)
		cl.pageDigests[addr] = r.Page
	}
}

// gaugeEngines sets the gauges of what is known of the engines of a cluster.
func (v *VM) gaugeEngines(now time.Duration, cl *cluster) {
	if cl.demandedAt == 0 || cl.metricsConfig == nil {
		return
	}
	if name := statFresh + ";cluster=" + cl.name; v.stats.room(name) {
		v.stats.set(name, uint64(cl.engines.CountFresh(now, cl.metricsConfig.Engines.StaleAfter)))
	}
	if name := statMissing + ";cluster=" + cl.name; v.stats.room(name) {
		v.stats.set(name, uint64(cl.engines.CountMissing(now, cl.metricsConfig.Engines.StaleAfter, v.neededFields(cl.metricsConfig, cl.targets)...)))
	}
}

// addReport takes a load report that came with a response.
func (v *VM) addReport(now time.Duration, c *config.Config, cluster, addr, value string) {
	r := lb.EngineSample{At: now, FreshAt: now}
	r.Inflight, r.Counted = v.loadAt(c, cluster, addr)
	if !metrics.ParseORCA([]byte(value), &r.Snapshot) {
		v.logFault(now, cluster, addr+" reports its load in a form that cannot be read: want TEXT or JSON, with num_requests_waiting or kv_cache_usage_perc")
		return
	}
	h := v.readers.pendingOf(cluster)
	h.cfg, h.reported[addr] = c, r
}
