package config

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/metrics"
)

const (
	// EndpointMetrics is the policy that goes by what engines tell of themselves; metricsBased is Higress's other name
	// for it.
	EndpointMetrics = "endpoint_metrics"
	metricsBased    = "metrics_based"
)

// policies are the names of all policies.
var policies = []string{globalLeastRequest, PrefixCache, EndpointMetrics, metricsBased}

// Engines says how what engines tell of themselves is found and weighed.
type Engines struct {
	Order      string  // "default", or "least" or "most" of Target
	Target     string  // name of a gauge or counter
	ShareLimit float64 // the largest share of requests for one endpoint; 1: no limit

	Engine     string        // whose names are looked for; "auto": all
	Path       string        // of the page of metrics
	Port       int           // of that page, 0 for the endpoint's own
	Interval   time.Duration // how often it is asked for
	StaleAfter time.Duration // age from which a page says nothing any more
	ORCA       bool          // load reports in responses are asked for and read
	Learn      bool          // capacities are learned
	Cluster    string        // stock Envoy: name of the cluster through which pages are asked for

	id uint64 // of what is asked for, and of whom

	RunningCost, QueueCost, KVCacheCost, LoRACost float64 // in requests in flight
}

// Kind returns whose names are looked for.
func (e *Engines) Kind() metrics.Engine {
	kind, _ := metrics.EngineOf(e.Engine) // AnyEngine for "auto"
	return kind
}

// MetricsID tells configurations apart that have other engines asked, or asked for something else. It is the same in
// all VMs.
func (c *Config) MetricsID() uint64 { return c.Engines.id }

// settle works out the MetricsID.
func (pt *part) settleMetricsID() {
	if !pt.Scrapes(pt.host) {
		return
	}
	e := &pt.Engines
	parts := []string{
		e.Engine, e.Path, strconv.Itoa(e.Port), e.Interval.String(), e.Order, e.Target, e.Cluster, pt.Store, pt.Redis.String(),
	}
	for _, s := range pt.EnvoyCfg.Endpoints {
		parts = append(parts, s.Addr)
	}
	e.id = xxhash.Sum64String(strings.Join(parts, "\n"))
}

// Scrapes says whether engines are asked for their metrics. In Higress the gateway does it; whether it is set up to,
// nobody tells.
func (c *Config) Scrapes(h Host) bool {
	if !c.Enabled || h == Envoy && c.Engines.Cluster == "" {
		return false
	}
	return c.ByMetrics() || c.Policy == PrefixCache
}

// ByMetrics says whether the policy needs metrics.
func (c *Config) ByMetrics() bool {
	return c.Policy == EndpointMetrics || slices.Contains(rivals, c.Policy)
}

// engineNames are what Engine may be.
func engineNames() []string { return append([]string{"auto"}, metrics.EngineNames()...) }

const (
	keyMetricsCluster = "lb_config.envoy.metrics_cluster"
	keyORCA           = "lb_config.metrics.orca"
	keyTarget         = "lb_config.target_metric"
	keyOrder          = "lb_config.metric_policy"
	keyStaleAfter     = "lb_config.metrics.stale_after"
	keyRateLimit      = "lb_config.rate_limit"
	keyEngine         = "lb_config.engine"
	keyMetricsEngine  = "lb_config.metrics.engine"
)

const windowIdle = "has no effect: rate_limit is a share of the last ten seconds' requests"

var metricsKeys = []string{
	keyMetricsCluster, keyORCA, keyStaleAfter, keyMetricsEngine, "lb_config.metrics.path", "lb_config.metrics.port",
	"lb_config.metrics.interval", "lb_config.metrics.learn_weights", "lb_config.metrics.weights.running",
	"lb_config.metrics.weights.queue", "lb_config.metrics.weights.kv_cache", "lb_config.metrics.weights.lora",
}

// checkEngine takes over Higress's name for metrics.engine.
func (pt *part) checkEngine() {
	if !contains(engineNames(), pt.engine) {
		pt.warn(pt.prefix+keyEngine, "got "+quote(pt.engine)+", taken as "+strconv.Quote(pt.Engines.Engine)+
			didYouMean(pt.engine, engineNames()))
		return
	}
	if pt.written[keyMetricsEngine] && pt.engine != pt.Engines.Engine {
		pt.bad(pt.prefix+keyMetricsEngine, "got "+quote(pt.Engines.Engine)+" and engine "+quote(pt.engine)+
			", which is the same thing; want one of them")
	}
	pt.Engines.Engine = pt.engine
}

// checkMetrics settles what endpoint_metrics needs.
func (pt *part) checkMetrics() {
	if pt.Policy == metricsBased {
		pt.Policy = EndpointMetrics
	}
	e := &pt.Engines
	if e.ShareLimit == 0 { // as in Higress
		e.ShareLimit = 1
	}
	if !pt.ByMetrics() {
		pt.idle([]string{keyOrder, keyTarget, keyRateLimit, keyEngine}, "has no effect without lb_policy "+EndpointMetrics)
		if pt.Policy != PrefixCache {
			e.ORCA = false
			pt.idle(metricsKeys, "has no effect without lb_policy "+EndpointMetrics+" or "+PrefixCache)
			return
		}
		e.Order = "default"
	}
	if pt.host == Higress {
		pt.idle([]string{"lb_config.metrics.path", "lb_config.metrics.port"}, "has no effect in Higress: its health check reads the metrics")
	}
	if e.StaleAfter <= e.Interval {
		pt.bad(pt.prefix+keyStaleAfter, "got "+brief(e.StaleAfter)+", want more than interval, "+brief(e.Interval))
	}
	if pt.host == Envoy && pt.ByMetrics() && e.Cluster == "" && !e.ORCA {
		pt.bad(pt.prefix+keyMetricsCluster, "missing, want the name of the ORIGINAL_DST cluster through which engines are asked for their metrics, or "+
			keyORCA+" true if they report their load in responses")
	}
	switch {
	case e.Order != "default" && pt.host == Envoy && e.Cluster == "":
		pt.bad(pt.prefix+keyMetricsCluster, "missing, want the name of the ORIGINAL_DST cluster: load reports tell no metric for metric_policy "+strconv.Quote(e.Order))
	case e.Order == "default":
		pt.idle([]string{keyTarget}, "has no effect with metric_policy default")
	default:
		if _, err := metrics.New(metrics.AnyEngine, e.Target); e.Target == "" || err != nil {
			pt.warn(pt.prefix+keyOrder, "is "+strconv.Quote(e.Order)+" of "+quote(e.Target)+", which is no name of a metric "+
				"as /metrics has it, without labels: taken as "+strconv.Quote(orderDefault))
			e.Order = orderDefault
		}
	}
	if pt.ByMetrics() && pt.engine != "" {
		pt.checkEngine()
	}
	if !strings.HasPrefix(e.Path, "/") || strings.ContainsFunc(e.Path, func(r rune) bool { return r <= ' ' || r > '~' }) {
		pt.bad(pt.prefix+"lb_config.metrics.path", "got "+quote(e.Path)+`, want a path that begins with "/", without blanks`)
	}
}
