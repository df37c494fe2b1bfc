//go:build !envoy

package main

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/discovery"
)

// Asks implements Gateway: any VM with requests may read what the gateway's health checks have stored.
func (g *higressGateway) Asks(time.Duration, bool) bool { return true }

// readAs reads the list of the job's cluster as one of its requests.
func (g *higressGateway) readAs(now time.Duration, j *job) []byte {
	g.Enter(j.request)
	defer g.Enter(theVM.inside)
	_, raw := g.read(now, j.cluster)
	return raw
}

// Ask implements Gateway. The gateway tells what it has stored only to a request, so one that is being served is asked
// as: at a tick, or by itself when nothing fresh is known. Nobody reads it again before the interval is over.
func (g *higressGateway) Ask(now time.Duration, j *job, told func(addr string, page []byte, result string) bool) []lb.Endpoint {
	last, _ := g.asked.get(now, j.cluster)
	due := now-max(j.seen, last) >= j.cfg.Engines.Interval
	if j.request == 0 || !due && !g.outdated(now, j.cluster) {
		return nil
	}
	raw := g.readAs(now, j)
	if !due {
		return nil
	}
	g.asked.put(now, j.cluster, now)
	endpoints, err := discovery.ParsePages(raw, func(addr string, page []byte) {
		if len(page) == 0 {
			told(addr, nil, heardNone)
			return
		}
		told(addr, page, heardOK)
	})
	if err != nil {
		return nil
	}
	return endpoints
}
