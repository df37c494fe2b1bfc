package engines

import (
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/endpoints"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/process"
)

// Workers know which clusters' metrics their requests need; the VM that scrapes the engines may have no requests. So
// they publish it in shared memory.

const (
	// demandAge is for how long engines are scraped after the last request, so that the next one finds fresh metrics.
	demandAge = endpoints.ClusterAge
	// announceEvery is how often it is published that metrics are still needed.
	announceEvery = 5 * time.Second
	// maxDemands is how many clusters and rules may need metrics at the same time.
	maxDemands = 256
)

// metricsDemand is a cluster whose metrics are needed, and by what configuration: its MetricsID.
type metricsDemand struct {
	cluster string
	id      uint64
}

// demandList is when each was last needed.
type demandList map[metricsDemand]time.Duration

// parseDemand reads the shared value: for each the length of the name u16, the name, the id u64, the time i64. What
// is damaged is left out.
func parseDemand(raw []byte) demandList {
	list := demandList{}
	for r := wire.NewReader(raw); r.Len() > 0; {
		m, at := metricsDemand{string(r.Take(int(r.Uint16()))), r.Uint64()}, r.Duration()
		if r.OK() {
			list[m] = at
		}
	}
	return list
}

// append returns the shared value without what is no longer needed.
func (l demandList) append(out wire.Writer, now time.Duration) []byte {
	for m, at := range l {
		if now-at > demandAge || len(m.cluster) > 1<<16-1 {
			continue
		}
		out = out.Uint16(uint16(len(m.cluster))).Raw(m.cluster).Uint64(m.id).Duration(at)
	}
	if len(out) == 0 {
		out = out.Byte(0) // the gateway keeps no empty value
	}
	return out
}

// demand is which metrics the requests of this VM need, until other VMs know.
type demand struct {
	*host.Env
	needed      demandList             // since the last announcement
	announced   map[metricsDemand]bool // ever
	announcedAt time.Duration
	urgent      bool // some that are needed were never announced
}

func newDemand(e *host.Env) demand {
	return demand{Env: e, needed: demandList{}, announced: map[metricsDemand]bool{}}
}

// need notes that a request needs the metrics of its cluster.
func (d *demand) need(cl *Cluster, c *config.Config) {
	cl.neededAt, cl.config = d.Clock(), c
	m := metricsDemand{cl.name, c.MetricsID()}
	d.needed[m] = cl.neededAt
	d.urgent = d.urgent || !d.announced[m]
}

// announce publishes which metrics this VM needs, unless the other VMs know. A swap that is lost is tried again at the
// next tick.
func (d *demand) announce(now time.Duration) {
	if len(d.needed) == 0 || now-d.announcedAt < announceEvery && !d.urgent {
		return
	}
	raw, cas, err := d.GW.KV().Get(process.KeyDemand)
	if err != nil {
		return
	}
	all := parseDemand(raw)
	for m, at := range d.needed {
		if _, known := all[m]; known || len(all) < maxDemands {
			all[m] = max(all[m], at)
		}
	}
	if d.GW.KV().Set(process.KeyDemand, all.append(nil, now), cas) != nil {
		return
	}
	if len(d.announced) >= maxDemands { // those of old configurations
		clear(d.announced)
	}
	for m := range d.needed {
		d.announced[m] = true
	}
	clear(d.needed)
	d.announcedAt, d.urgent = now, false
}

// all returns which metrics are needed by any VM.
func (d *demand) all() (demandList, error) {
	raw, _, err := d.GW.KV().Get(process.KeyDemand)
	if err != nil {
		return nil, err
	}
	return parseDemand(raw), nil
}
