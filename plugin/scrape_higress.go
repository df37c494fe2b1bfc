//go:build !envoy

package main

import (
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/discovery"
)

// maxPages is of how many endpoints it is known which page was read last.
const maxPages = 1 << 14

// Asks implements Gateway: any VM with requests may read what the gateway's health checks have stored.
func (g *higressGateway) Asks(time.Duration) bool { return true }

// Ask implements Gateway. The gateway tells what it has stored only to a request, so one that is being served is asked as; the one
// that waits for its answer never is. Nobody reads it again before the interval is over.
func (g *higressGateway) Ask(now time.Duration, j *job, told func(addr string, page []byte, result string) bool) []lb.Endpoint {
	if j.request == 0 || now-j.seen < j.cfg.Engines.Interval {
		return nil
	}
	g.Enter(j.request)
	raw := upstreamHosts()
	g.Enter(theVM.inside)
	endpoints, err := discovery.ParsePages(raw, func(addr string, page []byte) {
		key, digest := j.cluster+" "+addr, xxhash.Sum64(page)
		last, _ := g.pages.get(now, key)
		switch {
		case len(page) == 0:
			told(addr, nil, heardNone)
		case digest == last:
			told(addr, nil, heardSame)
		default:
			g.pages.put(now, key, digest)
			told(addr, page, heardOK)
		}
	})
	if err != nil {
		return nil
	}
	return endpoints
}
