// Package endpoints finds the endpoints of clusters, and reads their metrics, by the calls of each kind of gateway.
package endpoints

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
)

const (
	// MaxClusters is how many clusters a VM keeps. A client may be able to choose the name of the cluster, so what is
	// kept by name must have a bound.
	MaxClusters = 1024
	// ClusterAge is how long what is not used is kept.
	ClusterAge = 10 * time.Minute
	// LogEvery is how long a Redis, or an admin interface, that keeps failing is not logged again.
	LogEvery = 30 * time.Second
)

// Wanted returns the view of a cluster as the configuration takes it: without endpoints it counts only where requests
// wait for the first one.
func Wanted(v *lb.View, c *config.Config) *lb.View {
	if c.WaitsFromZero() {
		return v
	}
	return unlessEmpty(v)
}

// unlessEmpty returns nil in place of a view without endpoints: clusters of some types list none, whatever they have.
func unlessEmpty(v *lb.View) *lb.View {
	if v != nil && len(v.Endpoints) == 0 {
		return nil
	}
	return v
}

// Job is what the engines of one cluster are scraped for.
type Job struct {
	Cluster   string
	Config    *config.Config
	Request   uint32        // context of a request to the cluster that is being served, 0 for none
	SampledAt time.Duration // when the latest sample was taken
}

// Results of a scrape, as statistics count them.
const (
	ScrapeOK          = "ok"
	ScrapeUnreadable  = "unreadable" // a page without any metric of a known engine
	ScrapeTimeout     = "timeout"
	ScrapeIncomplete  = "incomplete" // it did not come to its end: cut off, too long or too slow
	ScrapeStatus      = "status"     // another than 200, which follows it
	ScrapeEncoded     = "encoded"
	ScrapeUnreachable = "unreachable"
	ScrapeNone        = "none"   // the gateway has stored none
	ScrapeFrozen      = "frozen" // a page that stands still, though the endpoint has answered since
)

// PageReport takes the page of an engine, or why there is none, and reports whether it could be used.
type PageReport func(addr string, page []byte, result string) (used bool)
