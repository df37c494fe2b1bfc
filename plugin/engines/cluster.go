package engines

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/lb/models"
	"github.com/warmgate/warmgate/lb/push"
	"github.com/warmgate/warmgate/metrics"
	"github.com/warmgate/warmgate/plugin/config"
)

// Cluster is what one VM knows of the engines of a cluster, besides their samples and facts themselves.
type Cluster struct {
	name    string
	engines *engines.Samples    // where samples go
	facts   *models.Facts       // where lists of models go
	views   map[uint64]*lb.View // the latest of each source; lists of models are read from their endpoints

	neededAt    time.Duration         // when metrics were last needed, 0 for never
	config      *config.Config        // that needed them
	requests    map[*Request]struct{} // that need them
	version     uint32                // of the published samples that were last read
	sampledAt   time.Duration         // when the latest of those was fresh
	attemptedAt time.Duration         // when pages were last read for a request, 0 for never
	targets     []string              // of those samples
	pageDigests map[string]uint64     // of the pages that they are from, by address

	lists clusterLists
}

// Request is a request that needs metrics, by the gateway's context for it.
type Request struct{ Context uint32 }

// NewCluster returns a cluster of whose engines nothing is known.
func NewCluster(name string, e *engines.Samples, f *models.Facts, views map[uint64]*lb.View) *Cluster {
	return &Cluster{name: name, engines: e, facts: f, views: views, requests: map[*Request]struct{}{}}
}

// Needed reports whether metrics were needed at any time.
func (m *Cluster) Needed() bool { return m.neededAt > 0 }

// Open returns the contexts of the requests that need metrics and are being served.
func (m *Cluster) Open() (contexts []uint32) {
	for r := range m.requests {
		contexts = append(contexts, r.Context)
	}
	return contexts
}

// Gone notes that a request is over.
func (m *Cluster) Gone(r *Request) { delete(m.requests, r) }

// Count returns of how many engines there are fresh metrics, and how many of these lack one that a policy depends on;
// false where metrics are not needed.
func (m *Cluster) Count(now time.Duration, kind config.Host) (fresh, missing int, needed bool) {
	if m.neededAt == 0 || m.config == nil {
		return 0, 0, false
	}
	stale, fields := m.config.Engines.StaleAfter, neededFields(m.config, kind, m.targets)
	return m.engines.CountFresh(now, stale), m.engines.CountMissing(now, stale, fields...), true
}

// Keep drops what was read by a configuration that is not in force: the next request has it read again.
func (m *Cluster) Keep(inForce map[*config.Config]bool) {
	if !inForce[m.lists.config] {
		m.lists = clusterLists{}
		m.facts.SetLists(models.Lists{})
	}
}

// Clusters are the clusters that a VM knows.
type Clusters interface {
	// EnginesOf returns a cluster by its name, nil for one that is not known.
	EnginesOf(name string) *Cluster
	// EachEngines calls f with all of them.
	EachEngines(f func(*Cluster))
}

// Counts is where requests are counted.
type Counts interface {
	// LoadAt returns what is in flight at an endpoint, if that is known at once.
	LoadAt(c *config.Config, cluster, addr string) (l lb.Load, known bool)
	// RemoteLoads asks the store in Redis what is in flight at endpoints.
	RemoteLoads(now time.Duration, c *config.Config, cluster string, addrs []string, done func([]lb.Load, error))
}

// neededFields returns the fields that a policy depends on, of samples with these targets.
func neededFields(c *config.Config, kind config.Host, targets []string) []metrics.Field {
	if !c.Scrapes(kind) { // load reports have no more
		return []metrics.Field{metrics.Waiting}
	}
	var fields []metrics.Field
	if c.Engines.Order == engines.ByLoad || c.Push == push.Pending {
		fields = append(fields, metrics.Running, metrics.Waiting)
	}
	if i := slices.Index(targets, c.Engines.Target); i >= 0 && c.Engines.Order != engines.ByLoad {
		fields = append(fields, metrics.Target(i))
	}
	return fields
}
