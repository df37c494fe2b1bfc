package clusters

import (
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/process"
)

// Ejections are decided by each VM and apply in all: an endpoint that fails five requests of one worker is ejected for
// the others too. One key contains those of all clusters, because creating a key is not a swap and only the first VM of
// the process can do it safely.

// maxEjectionAge is how long the ejections of a cluster are kept after they were last written. Every VM knows them by
// then.
const maxEjectionAge = time.Hour

// ejections are the ejections in shared memory, by name of the cluster.
type ejections map[string]clusterEjections

// clusterEjections is when the ejections of a cluster were written, and what health.Health has exported.
type clusterEjections struct {
	written time.Duration
	entries []byte
}

// parseEjections reads the shared value: per record the length of the name u16, the name, the time i64, the length of
// the entries u32, the entries. What is damaged is left out.
func parseEjections(raw []byte) ejections {
	out := ejections{}
	for r := wire.NewReader(raw); r.Len() > 0; {
		name, record := r.Take(int(r.Uint16())), clusterEjections{r.Duration(), r.Take(int(r.Uint32()))}
		if r.OK() {
			out[string(name)] = record
		}
	}
	return out
}

// append returns the shared value without what is old or empty.
func (e ejections) append(out wire.Writer, now time.Duration) []byte {
	for name, r := range e {
		if len(r.entries) == 0 || now-r.written > maxEjectionAge || len(name) > 1<<16-1 {
			continue
		}
		out = out.Uint16(uint16(len(name))).Raw(name).Duration(r.written).Uint32(uint32(len(r.entries)))
		out = append(out, r.entries...)
	}
	if len(out) == 0 {
		out = out.Byte(0) // the gateway keeps no empty value
	}
	return out
}

// shared is what each VM learns of a cluster for all of them.
type shared interface {
	Import(now time.Duration, shared []byte)
	Export(now time.Duration, shared []byte) ([]byte, bool)
	ConfirmExport()
}

// ExchangeEjections takes over the ejections of other VMs and publishes those decided here.
func (cs Known) ExchangeEjections(now time.Duration, kv lb.KV) {
	cs.exchange(now, kv, process.KeyEjections, func(cl *Cluster) shared { return cl.Health })
}

// ExchangeFacts does the same with what endpoints have said of models, in a value of the same format.
func (cs Known) ExchangeFacts(now time.Duration, kv lb.KV) {
	cs.exchange(now, kv, process.KeyFacts, func(cl *Cluster) shared { return cl.Facts })
}

// exchange takes over what other VMs have published of clusters under the key, and publishes what was learned here. A
// swap that is lost is tried again at the next tick.
func (cs Known) exchange(now time.Duration, kv lb.KV, key string, of func(*Cluster) shared) {
	raw, cas, err := kv.Get(key)
	if err != nil {
		return
	}
	all := parseEjections(raw)
	var changed []shared
	for name, cl := range cs {
		s := of(cl)
		s.Import(now, all[name].entries)
		if merged, ok := s.Export(now, all[name].entries); ok {
			all[name] = clusterEjections{now, merged}
			changed = append(changed, s)
		}
	}
	if len(changed) == 0 || kv.Set(key, all.append(nil, now), cas) != nil {
		return
	}
	for _, s := range changed {
		s.ConfirmExport()
	}
}
