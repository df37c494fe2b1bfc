package endpoints

import (
	"time"

	"github.com/warmgate/warmgate/internal/recent"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/discovery"
)

const (
	// bigHostList is the size, in bytes, from which a list of hosts is not read for every request: with metrics in it,
	// it can be megabytes.
	bigHostList = 64 << 10
	// hostListAge is how long a big list is used.
	hostListAge = 250 * time.Millisecond
)

// HigressCalls are the calls of Higress by which endpoints and their metrics are found.
type HigressCalls interface {
	Now() time.Duration
	// UpstreamHosts returns the list of hosts of the current request's cluster: nil if that is not known, and of no
	// length if there are none. The current request is the one that calls act on. The list is valid until the next call
	// of this method.
	UpstreamHosts() []byte
	// AsRequest runs f while calls act on the request with this context.
	AsRequest(context uint32, f func())
}

// Higress is the part of a Gateway that finds endpoints and reads their metrics with Higress's host calls.
type Higress struct {
	calls  HigressCalls
	lists  *recent.Cache[string, *hostList]
	readAt *recent.Cache[string, time.Duration] // when the pages of metrics of a cluster were last read
}

// hostList is the latest list of hosts of a cluster.
type hostList struct {
	raw  string // "" of a big list, or of none
	view *lb.View
	at   time.Duration // of a big list: when it was read, 0 of others
	used time.Duration // of a big list: when a request last needed it
}

// NewHigress returns the part of a Gateway that finds endpoints through these calls.
func NewHigress(calls HigressCalls) *Higress {
	return &Higress{
		calls: calls, lists: recent.New[string, *hostList](MaxClusters, ClusterAge),
		readAt: recent.New[string, time.Duration](MaxClusters, ClusterAge),
	}
}

// Serves implements Gateway: every VM may do everything.
func (g *Higress) Serves() {}

// View implements Gateway. A small list of hosts is read again for every request, because from version 2.2 on Higress
// fails a request that is sent to a host that has just left.
func (g *Higress) View(now time.Duration, cluster string, c *config.Config) *lb.View {
	l, known := g.lists.Get(now, cluster)
	if known && l.at > 0 {
		if l.used = g.calls.Now(); l.used-l.at < hostListAge {
			return l.view
		}
	}
	view, _ := g.read(now, cluster)
	return Wanted(view, c)
}

// outdated reports whether a big list should be read before the next request has to do it.
func (g *Higress) outdated(now time.Duration, cluster string) bool {
	l, known := g.lists.Get(now, cluster)
	return known && l.at > 0 && l.used >= l.at && g.calls.Now()-l.at >= hostListAge/2
}

// read reads the list of the cluster that the current request goes to. The view stays the same value while the
// endpoints are the same.
func (g *Higress) read(now time.Duration, cluster string) (*lb.View, []byte) {
	l, known := g.lists.Get(now, cluster)
	raw := g.calls.UpstreamHosts()
	if known && l.at == 0 && raw != nil && string(raw) == l.raw {
		return l.view, raw
	}
	endpoints, err := discovery.ParseHosts(raw)
	none := raw != nil && len(raw) == 0
	if !none && (err != nil || len(endpoints) == 0) {
		g.lists.Drop(cluster)
		return nil, raw
	}
	if !known {
		l = &hostList{}
		g.lists.Put(now, cluster, l)
	}
	if l.view == nil || !sameEndpoints(l.view.Endpoints, endpoints) {
		view := &lb.View{Cluster: cluster, Endpoints: endpoints}
		view.Follow(now, l.view)
		l.view = view
	}
	if l.raw, l.at = "", 0; len(raw) >= bigHostList {
		l.at = g.calls.Now()
	} else {
		l.raw = string(raw)
	}
	return l.view, raw
}

// KnownView implements Gateway: Higress lists the endpoints of the cluster that a request is routed to, of no other.
func (g *Higress) KnownView(time.Duration, string, *config.Config) *lb.View { return nil }

// Hurry implements Gateway: Higress lists endpoints whenever it is asked to.
func (g *Higress) Hurry(time.Duration) {}

// Breakers implements Gateway: Higress shows none.
func (g *Higress) Breakers(*config.Config) (map[string]discovery.Breaker, uint32) { return nil, 0 }

// HasSubsets implements Gateway: Istio makes a cluster of its own for each subset of a service.
func (g *Higress) HasSubsets(string, *config.Config) bool { return false }

// Tick implements Gateway: Higress lists endpoints when they are read.
func (g *Higress) Tick(time.Duration, *config.EnvoySource) {}

// Scrapes implements Gateway: any VM with requests may read what the gateway's health checks have stored.
func (g *Higress) Scrapes(time.Duration, bool) bool { return true }

// Scrape implements Gateway. The gateway shows what it has stored only to a request, so it is read as one that is being
// served: at a tick, or by that request when nothing fresh is known. It is not read again within the interval.
func (g *Higress) Scrape(now time.Duration, j *Job, report PageReport) []lb.Endpoint {
	last, _ := g.readAt.Get(now, j.Cluster)
	due := now-max(j.SampledAt, last) >= j.Config.Engines.Interval
	if j.Request == 0 || !due && !g.outdated(now, j.Cluster) {
		return nil
	}
	var raw []byte
	g.calls.AsRequest(j.Request, func() { _, raw = g.read(now, j.Cluster) })
	if !due {
		return nil
	}
	g.readAt.Put(now, j.Cluster, now)
	endpoints, err := discovery.ParsePages(raw, func(addr string, page []byte) {
		if len(page) == 0 {
			report(addr, nil, ScrapeNone)
			return
		}
		report(addr, page, ScrapeOK)
	})
	if err != nil {
		return nil
	}
	return endpoints
}
