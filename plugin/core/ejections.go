package core

import (
	"encoding/binary"
	"time"
)

// Ejections are decided by each VM and shared by all: an endpoint that fails five requests of one worker is out for
// the others too. One key holds those of all clusters, because creating a key is not a swap and only the first VM of the
// process can do it safely.

// recordAge is how long the ejections of a cluster are kept after they were last written. Every VM knows them by then.
const recordAge = time.Hour

// ejections are the shared ejections: for each cluster its name, when they were written, and what lb exports.
type ejections map[string]record

type record struct {
	written time.Duration
	entries []byte
}

// parseEjections reads the shared value: per record the length of the name u16, the name, the time i64, the length of
// the entries u32, the entries. What is damaged is taken for empty.
func parseEjections(raw []byte) ejections {
	out := ejections{}
	for len(raw) > 2 {
		size := int(binary.LittleEndian.Uint16(raw))
		if raw = raw[2:]; len(raw) < size+12 {
			break
		}
		name := string(raw[:size])
		written := time.Duration(binary.LittleEndian.Uint64(raw[size:]))
		length := uint64(binary.LittleEndian.Uint32(raw[size+8:]))
		if raw = raw[size+12:]; uint64(len(raw)) < length {
			break
		}
		out[name] = record{written, raw[:length]}
		raw = raw[length:]
	}
	return out
}

// append returns the shared value without the records that are old or empty.
func (e ejections) append(out []byte, now time.Duration) []byte {
	for name, r := range e {
		if len(r.entries) == 0 || now-r.written > recordAge || len(name) > 1<<16-1 {
			continue
		}
		out = binary.LittleEndian.AppendUint16(out, uint16(len(name)))
		out = append(out, name...)
		out = binary.LittleEndian.AppendUint64(out, uint64(r.written))
		out = binary.LittleEndian.AppendUint32(out, uint32(len(r.entries)))
		out = append(out, r.entries...)
	}
	if len(out) == 0 {
		out = append(out, 0) // the gateway keeps no empty value
	}
	return out
}

// exchangeEjections takes over the ejections of other VMs and tells them those decided here. A swap that is lost is tried
// again at the next tick.
func (v *VM) exchangeEjections(now time.Duration) {
	raw, cas, err := v.gw.KV().Get(keyEjections)
	if err != nil {
		return
	}
	all := parseEjections(raw)
	var changed []*cluster
	for name, cl := range v.clusters {
		cl.health.Import(now, all[name].entries)
		if merged, ok := cl.health.Export(now, all[name].entries); ok {
			all[name] = record{now, merged}
			changed = append(changed, cl)
		}
	}
	if len(changed) == 0 || v.gw.KV().Set(keyEjections, all.append(nil, now), cas) != nil {
		return
	}
	for _, cl := range changed {
		cl.health.ConfirmExport()
	}
}
