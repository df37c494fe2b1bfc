package core

import (
	"strconv"
	"strings"
	"time"

	"github.com/warmgate/warmgate/lb"
)

const (
	// maxGauges is how many endpoints of a cluster have gauges at the same time.
	maxGauges = 64
	// maxNames bounds the statistics that one VM defines: the gateway never frees a name, and endpoints come and go.
	maxNames = 8192
)

// setGauges sets the gauges. Every VM sets those of the clusters it knows, to the same numbers.
func (v *VM) setGauges(now time.Duration) {
	v.stats.store(v.store.Stats)
	if n, err := v.store.Owners(now); err == nil {
		v.stats.set(statOwners, uint64(n))
	}
	for _, cl := range v.clusters {
		name := statEjections + ";cluster=" + cl.name
		if n := cl.health.Ejections() - cl.ejected; n > 0 && v.stats.room(name) {
			v.stats.count(name, n)
			cl.ejected += n
		}
		v.gaugeEngines(now, cl)
		v.gaugeLoads(cl)
		v.gaugePrompts(cl)
	}
}

// clearGauges sets the gauges of a cluster that is about to be forgotten to what they are at rest. Those of loads are there
// already.
func (v *VM) clearGauges(cl *cluster) {
	for _, stat := range []string{statFresh, statMissing, statRetention, statTable} {
		if name := stat + ";cluster=" + cl.name; v.stats.has(name) {
			v.stats.set(name, 0)
		}
	}
}

// gaugeLoads sets the gauges of one cluster's endpoints. Those of an endpoint that has left stay until nothing is in
// flight there any more.
func (v *VM) gaugeLoads(cl *cluster) {
	listed := map[string]bool{}
	for _, view := range cl.views {
		for i := range view.Endpoints {
			addr := view.Endpoints[i].Addr
			listed[addr] = true
			if len(cl.gauges) < maxGauges && v.stats.room(statInflight+labels(cl.name, addr)) {
				cl.gauges[addr] = true
			}
		}
	}
	addrs := make([]string, 0, len(cl.gauges))
	for a := range cl.gauges {
		addrs = append(addrs, a)
	}
	loads, err := v.store.Loads(cl.name, addrs, nil)
	if err != nil {
		return
	}
	for i, a := range addrs {
		v.stats.set(statInflight+labels(cl.name, a), uint64(loads[i].Requests))
		// Once it is shown it is kept right, also when no configuration in force counts tokens any more.
		if name := statTokens + labels(cl.name, a); cl.tokens || v.stats.has(name) {
			v.stats.set(name, uint64(loads[i].Tokens))
		}
		if !listed[a] && loads[i] == (lb.Load{}) {
			delete(cl.gauges, a)
		}
	}
}

func labels(cluster, endpoint string) string { return ";cluster=" + cluster + ";endpoint=" + endpoint }

// describe says in one line what was decided, for the access log.
func describe(addr string, r lb.Reason, load int64) string {
	var b strings.Builder
	b.WriteString("host=")
	if addr == "" {
		addr = "-"
	}
	b.WriteString(addr)
	b.WriteString(" reason=")
	b.WriteString(r.String())
	if load > 0 {
		b.WriteString(" load=")
		b.WriteString(strconv.FormatInt(load, 10))
	}
	return b.String()
}

// steered says whether what describe has written is of a request that was sent to the endpoint chosen.
func steered(note string) bool {
	_, reason, _ := strings.Cut(note, " reason=")
	return strings.HasPrefix(reason, lb.ReasonChosen.String()) || strings.HasPrefix(reason, "body_")
}
