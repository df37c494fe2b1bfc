package audit

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Counts is how many requests are in flight at one endpoint, by each party's own count.
type Counts struct {
	Plugin  int64 // warmgate_inflight_requests, all workers of all gateways; up to a second old
	Server  int64 // the server's own
	Envoy   int64 // rq_active on the admin page /clusters, of all gateways
	Unknown bool  // Envoy does not list the endpoint (any more), so that it has no count
	Shared  bool  // there is a store common to all gateways
	Total   int64 // its total
	Leases  int64 // and its leases
}

// Snapshot holds the counts at all endpoints, by ip:port.
type Snapshot map[string]Counts

// Totals returns the sums over the endpoints.
func (s Snapshot) Totals() Counts {
	var t Counts
	for _, c := range s {
		t.Plugin += c.Plugin
		t.Server += c.Server
		t.Envoy += c.Envoy
	}
	return t
}

// Spread returns the smallest and the largest number that a server has in flight.
func (s Snapshot) Spread() (least, most int64) {
	first := true
	for _, c := range s {
		if first || c.Server < least {
			least = c.Server
		}
		most = max(most, c.Server)
		first = false
	}
	return least, most
}

// Disagreement returns an error that lists the endpoints at which the parties differ, or nil when there are none.
func (s Snapshot) Disagreement() error {
	return s.each(func(c Counts) bool {
		return c.Plugin == c.Server && (c.Unknown || c.Envoy == c.Server) &&
			(!c.Shared || c.Total == c.Server && c.Leases == c.Server)
	})
}

// Remains returns an error that lists the endpoints at which a party counts a request, or nil when there are none.
func (s Snapshot) Remains() error {
	return s.each(func(c Counts) bool {
		return c.Plugin == 0 && c.Server == 0 && c.Envoy == 0 && c.Total == 0 && c.Leases == 0
	})
}

// each collects the endpoints at which good does not hold, in a fixed order.
func (s Snapshot) each(good func(Counts) bool) error {
	var errs []error
	for addr, c := range s {
		if !good(c) {
			envoy := strconv.FormatInt(c.Envoy, 10)
			if c.Unknown {
				envoy = "-"
			}
			text := fmt.Sprintf("%s: plugin %d, server %d, Envoy %s", addr, c.Plugin, c.Server, envoy)
			if c.Shared {
				text += fmt.Sprintf(", store %d in %d leases", c.Total, c.Leases)
			}
			errs = append(errs, errors.New(text))
		}
	}
	return joinSorted(errs)
}

// joinSorted joins errors in the order of their texts, so that the same findings always read the same.
func joinSorted(errs []error) error {
	slices.SortFunc(errs, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// activeRequests reads rq_active of every endpoint of a cluster from the admin page /clusters, whose lines are
// cluster::ip:port::key::value. It is deliberately not the plugin's own parser.
func activeRequests(page, cluster string) (map[string]int64, error) {
	active := map[string]int64{}
	for _, line := range strings.Split(page, "\n") {
		part := strings.Split(line, "::")
		if len(part) != 4 || part[0] != cluster || part[2] != "rq_active" {
			continue
		}
		n, err := strconv.ParseInt(part[3], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("audit: admin /clusters: %q: %w", line, err)
		}
		active[part[1]] = n
	}
	return active, nil
}

const inflightGauge = "wasmcustom.warmgate_inflight_requests;cluster="

// pluginCounts picks the gauges of one cluster out of Envoy's statistics, by endpoint.
func pluginCounts(stats map[string]float64, cluster string) map[string]int64 {
	counts := map[string]int64{}
	for name, v := range stats {
		if addr, ok := strings.CutPrefix(name, inflightGauge+cluster+";endpoint="); ok {
			counts[addr] = int64(v)
		}
	}
	return counts
}
