//go:build envoy

package main

import "github.com/warmgate/warmgate/plugin/config"

// maxPage is how many bytes of a page are read: the metrics of eight copies of a model are half of it. The memory of a
// VM never shrinks.
const maxPage = 1 << 20

// MetricsPage implements endpoints.EnvoyCalls.
func (envoyCalls) MetricsPage(where string, c *config.Config, answered func(page []byte, result string)) error {
	e := &c.Engines
	p := page{
		cluster: e.Cluster, path: e.Path, where: where, what: "an engine's metrics", accept: "text/plain",
		within: e.Interval, most: maxPage,
	}
	return p.request(answered)
}
