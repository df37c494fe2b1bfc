package config

import (
	"slices"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/metrics"
)

// Kind returns the engine whose names are expected.
func (e *Engines) Kind() metrics.Engine {
	kind, _ := metrics.EngineOf(e.Engine) // AnyEngine for "auto"
	return kind
}

// MetricsID differs between configurations that scrape different endpoints or different metrics. It is the same in all
// VMs.
func (c *Config) MetricsID() uint64 { return c.Engines.id }

// settleMetricsID computes the MetricsID.
func (c *Config) settleMetricsID(h Host) {
	if !c.Scrapes(h) {
		return
	}
	e := &c.Engines
	parts := []string{
		e.Engine, e.Path, strconv.Itoa(e.Port), e.Interval.String(), e.Order.String(), e.Target, e.Cluster,
		c.Store.String(), c.Redis.String(),
	}
	if c.Ranks.Apart {
		parts = append(parts, "ranks")
	}
	for _, s := range c.EnvoyCfg.Endpoints {
		parts = append(parts, s.Addr)
	}
	e.id = xxhash.Sum64String(strings.Join(parts, "\n"))
}

// engineNames are what Engine may be.
func engineNames() []string { return append([]string{"auto"}, metrics.EngineNames()...) }

// checkEngine takes over Higress's name for metrics.engine.
func (pt *part) checkEngine() {
	if !slices.Contains(engineNames(), pt.engine) {
		pt.warn(pt.prefix+keyEngine, "got "+quote(pt.engine)+", taken as "+strconv.Quote(pt.Engines.Engine)+
			DidYouMean(pt.engine, engineNames()))
		return
	}
	if pt.written[keyMetricsEngine] && pt.engine != pt.Engines.Engine {
		pt.badKey(keyMetricsEngine, "got "+quote(pt.Engines.Engine)+" and engine "+quote(pt.engine)+
			", which is the same thing; want one of them")
	}
	pt.Engines.Engine = pt.engine
}

// checkMetrics checks how metrics of engines are scraped.
func (pt *part) checkMetrics() {
	e, use := &pt.Engines, pt.metricsUse()
	if use == policy.NoMetrics {
		e.ORCA = false
		return
	}
	if use != policy.MetricsRequired { // the order is that of a policy that requires them
		e.Order = engines.ByLoad
	}
	if pt.host == Higress {
		pt.idle([]string{keyMetricsPath, keyMetricsPort},
			"has no effect in Higress: its health check reads the metrics")
	}
	if e.StaleAfter <= e.Interval {
		pt.badKey(keyStaleAfter, "got "+brief(e.StaleAfter)+", want more than interval, "+brief(e.Interval))
	}
	if pt.host == Envoy && e.Cluster == "" && !pt.invalid[keyMetricsCluster] {
		pt.checkWithoutCluster()
	}
	if pt.ByMetrics() && pt.engine != "" {
		pt.checkEngine()
	}
	pt.checkPath(keyMetricsPath, e.Path)
}

// checkPath checks the path of a page of endpoints.
func (pt *part) checkPath(key, path string) {
	unprintable := func(r rune) bool { return r <= ' ' || r > '~' }
	if !strings.HasPrefix(path, "/") || strings.ContainsFunc(path, unprintable) {
		pt.badKey(key, "got "+quote(path)+`, want a path that begins with "/", without blanks`)
	}
}

// checkWithoutCluster checks a configuration for stock Envoy that names no cluster to scrape engines through.
func (pt *part) checkWithoutCluster() {
	e := &pt.Engines
	if pt.ByMetrics() && !e.ORCA {
		pt.badKey(keyMetricsCluster, "missing, want the name of the ORIGINAL_DST cluster through which "+
			"engines are scraped, or "+keyORCA+" true if they report their load in responses")
	}
	if e.Order != engines.ByLoad {
		pt.badKey(keyMetricsCluster, "missing, want the name of the ORIGINAL_DST cluster: load reports "+
			"do not contain the metric of metric_policy "+strconv.Quote(e.Order.String()))
	}
}
