package main

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
	heard   map[string]*hearing        // by cluster
	faults  map[string]time.Duration   // by cluster and text: when it was last in the log
}

// hearing is what has been heard of one cluster since it was last published.
type hearing struct {
	cfg     *config.Config // of the latest page or report
	targets []string
	by      map[string]lb.EngineSample
	reports map[string]lb.EngineSample // load reports in responses: they say less, so they only complete what is known
	since   time.Duration              // when there was first something to publish, 0 before
	listed  map[string]bool            // endpoints that there are; nil: not known, none is dropped
}

func newReaders() *readers {
	return &readers{parsers: map[string]*metrics.Parser{}, heard: map[string]*hearing{}, faults: map[string]time.Duration{}}
}

func (r *readers) of(cluster string) *hearing {
	h := r.heard[cluster]
	if h == nil {
		h = &hearing{by: map[string]lb.EngineSample{}, reports: map[string]lb.EngineSample{}}
		r.heard[cluster] = h
	}
	return h
}

// parser returns the parser for a job.
func (r *readers) parser(j *job) (*metrics.Parser, error) {
	key := j.cfg.Engines.Engine + "\n" + strings.Join(j.targets, "\n")
	if p := r.parsers[key]; p != nil {
		return p, nil
	}
	p, err := metrics.New(j.cfg.Engines.Kind(), j.targets...)
	if err != nil {
		return nil, err
	}
	if len(r.parsers) >= maxMetered { // those of old configurations
		clear(r.parsers)
	}
	r.parsers[key] = p
	return p, nil
}

// Results of asking an engine, as statistics count them.
const (
	heardOK      = "ok"
	heardNothing = "unreadable" // a page without any metric of a known engine
	heardTimeout = "timeout"
	heardCut     = "incomplete" // it did not come to its end: cut off, too long or too slow
	heardStatus  = "status"     // another than 200, which follows it
	heardEncoded = "encoded"
	heardFailed  = "unreachable"
	heardNone    = "none" // the gateway has stored none
)

// page takes an engine's page, and says if it is of use. result is heardOK, or why there is none.
func (v *vm) page(now time.Duration, j *job, addr string, page []byte, result string) bool {
	h := v.readers.of(j.cluster)
	h.cfg = j.cfg
	if !slices.Equal(h.targets, j.targets) { // what is already there has other ones
		h.targets, h.by = j.targets, map[string]lb.EngineSample{}
	}
	r := lb.EngineSample{At: now, ScrapedAt: now, FreshAt: now}
	if j.stored {
		// It may be old, or the engine has nothing new to say: what it said still holds, and when it did is not known.
		if r.Page = xxhash.Sum64(page) ^ uint64(j.cfg.Engines.Kind()); result == heardOK && r.Page == j.pages[addr] {
			h.by[addr] = lb.EngineSample{FreshAt: now}
			return true
		}
	}
	p, err := v.readers.parser(j)
	if err != nil {
		v.fault(now, j.cluster, err.Error())
		return false
	}
	if result == heardOK {
		p.Parse(page, &r.Load)
		if r.Engine == metrics.AnyEngine && !tellsAny(&r.Load, len(j.targets)) {
			result = heardNothing
		}
	}
	kind, _, _ := strings.Cut(result, " ")
	v.stats.count(statScrapes+";result="+kind, 1)
	if result == heardNone && !j.cfg.ByMetrics() { // they would be of use, but nobody has asked for them
		return false
	}
	if result != heardOK {
		v.fault(now, j.cluster, addr+" "+faultOf(result, j.cfg))
		return false
	}
	r.Inflight, r.Counted = v.inflightAt(j.cfg, j.cluster, addr)
	h.by[addr] = r
	wanted := v.needs(j.cfg, j.targets)
	if j.cfg.Engines.Order == lb.ByLoad {
		wanted = append(wanted, metrics.KVUse)
	}
	if missing := p.Missing(&r.Load, wanted...); len(missing) > 0 {
		v.fault(now, j.cluster, addr+" does not tell "+strings.Join(missing, ", "))
	}
	return true
}

// faultOf says why there is no page.
func faultOf(result string, c *config.Config) string {
	switch result {
	case heardNothing:
		return "answers, but not with metrics of " + engineNamed(c)
	case heardNone:
		return "has no stored metrics: its health check must ask for them, with store_metrics"
	}
	return "does not tell its metrics: " + result
}

// tellsAny says whether a load has one of the first n targets.
func tellsAny(l *metrics.Load, n int) bool {
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

// needs returns the fields that a configuration is about, of readings with these targets.
func (v *vm) needs(c *config.Config, targets []string) []metrics.Field {
	if !c.Scrapes(v.host) { // load reports tell no more
		return []metrics.Field{metrics.Waiting}
	}
	if c.Engines.Order == lb.ByLoad {
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

// fault says in the log what is wrong with an engine's metrics, once.
func (v *vm) fault(now time.Duration, cluster, text string) {
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

// publishReadings writes what was heard into shared memory, beside what others have written. With other gateways it is
// known there only once Redis has told what is in flight.
func (v *vm) publishReadings(now time.Duration) {
	for name, h := range v.readers.heard {
		if len(h.by) == 0 && len(h.reports) == 0 {
			delete(v.readers.heard, name)
			continue
		}
		if h.since == 0 {
			h.since = now
		}
		if now-h.since < h.collects(v.host) {
			continue
		}
		delete(v.readers.heard, name)
		if h.cfg == nil || !h.cfg.UsesRedis() {
			v.publishHeard(now, name, h)
			continue
		}
		var addrs []string
		for addr := range h.by {
			addrs = append(addrs, addr)
		}
		for addr := range h.reports {
			addrs = append(addrs, addr)
		}
		_, sh := v.storeOf(h.cfg)
		sh.remote.Loads(now, name, addrs, func(loads []lb.Load, err error) {
			if err == nil {
				h.count(addrs, loads)
			}
			v.publishHeard(now, name, h)
		})
	}
}

// collects returns for how long readings are collected before they are published: every VM reads all of them each time,
// and those of many endpoints come at many times, but in Higress, where they are read at once.
func (h *hearing) collects(host config.Host) time.Duration {
	const together = 64
	if len(h.listed) < together || h.cfg == nil || host == config.Higress {
		return 0
	}
	return min(time.Duration(len(h.listed)/together)*tickPeriod, h.cfg.Engines.Interval/2)
}

// publishHeard writes what was heard of one cluster. A swap that is lost is tried again at the next tick.
func (v *vm) publishHeard(now time.Duration, name string, h *hearing) {
	key := keyReadings + name
	raw, cas, _ := v.gw.KV().Get(key) // where there is nothing yet, the last VM to write wins
	all, err := discovery.ParseReadings(raw)
	if err != nil || len(h.by) > 0 && !slices.Equal(all.Targets, h.targets) {
		all = discovery.Readings{By: map[string]lb.EngineSample{}}
	}
	h.mergeInto(&all, now)
	if v.gw.KV().Set(key, all.Append(nil), cas) == nil || v.readers.heard[name] != nil {
		return
	}
	v.readers.heard[name] = h
}

// count notes what was in flight at the endpoints when they spoke.
func (h *hearing) count(addrs []string, loads []lb.Load) {
	for i, addr := range addrs {
		for _, list := range [2]map[string]lb.EngineSample{h.by, h.reports} {
			if r, there := list[addr]; there {
				r.Inflight, r.Counted = loads[i], true
				list[addr] = r
			}
		}
	}
}

func (h *hearing) mergeInto(all *discovery.Readings, now time.Duration) {
	if len(h.by) > 0 {
		all.Targets = h.targets
	}
	for addr, r := range h.by {
		known, there := all.By[addr]
		switch {
		case r.ScrapedAt > known.ScrapedAt:
			if known.At > r.At { // a load report came meanwhile
				r.Load.UpdateReport(&known.Load)
				r.At, r.Inflight, r.Counted = known.At, known.Inflight, known.Counted
			}
			r.FreshAt = max(r.FreshAt, known.FreshAt)
			all.By[addr] = r
		case there:
			known.FreshAt = max(known.FreshAt, r.FreshAt)
			all.By[addr] = known
		}
	}
	for addr, r := range h.reports {
		known := all.By[addr]
		if r.At <= known.At {
			continue
		}
		l := known.Load
		l.Update(&r.Load)
		r.Load, r.Page, r.ScrapedAt = l, known.Page, known.ScrapedAt
		all.By[addr] = r
	}
	for addr, r := range all.By {
		if h.listed != nil && !h.listed[addr] || now-r.FreshAt > meteredAge {
			delete(all.By, addr)
		}
	}
}

// followReadings reads what the VMs have published of the clusters that this one needs.
func (v *vm) followReadings(now time.Duration) {
	for _, cl := range v.clusters {
		if cl.metered > 0 {
			v.followCluster(now, cl)
		}
	}
}

func (v *vm) followCluster(now time.Duration, cl *cluster) {
	raw, version, err := v.gw.KV().Get(keyReadings + cl.name)
	if err != nil || version == cl.readings {
		return
	}
	all, err := discovery.ParseReadings(raw)
	if err != nil {
		return
	}
	cl.readings = version
	cl.engines.Update(now, all.Targets, all.By)
	cl.seen = 0
	cl.targets, cl.pages = all.Targets, map[string]uint64{}
	for addr, r := range all.By {
		cl.seen = max(cl.seen, r.FreshAt)
		cl.pages[addr] = r.Page
	}
}

// publishEngines sets the gauges of what is known of the engines of a cluster.
func (v *vm) publishEngines(now time.Duration, cl *cluster) {
	if cl.metered == 0 || cl.engineCfg == nil {
		return
	}
	if name := statFresh + ";cluster=" + cl.name; v.stats.room(name) {
		v.stats.set(name, uint64(cl.engines.CountFresh(now, cl.engineCfg.Engines.StaleAfter)))
	}
	if name := statMissing + ";cluster=" + cl.name; v.stats.room(name) {
		v.stats.set(name, uint64(cl.engines.CountMissing(now, cl.engineCfg.Engines.StaleAfter, v.needs(cl.engineCfg, cl.targets)...)))
	}
}

// reported takes a load report that came with a response.
func (v *vm) reported(now time.Duration, c *config.Config, cluster, addr, value string) {
	r := lb.EngineSample{At: now, FreshAt: now}
	r.Inflight, r.Counted = v.inflightAt(c, cluster, addr)
	if !metrics.ParseORCA([]byte(value), &r.Load) {
		v.fault(now, cluster, addr+" reports its load in a form that cannot be read: want TEXT or JSON, with num_requests_waiting or kv_cache_usage_perc")
		return
	}
	h := v.readers.of(cluster)
	h.cfg, h.reports[addr] = c, r
}
