package metrics

import "bytes"

// The headers of load reports, after the Open Request Cost Aggregation (ORCA) standard. vLLM sends them in answers that
// are not streamed, to requests that contain the request header.
const (
	ORCAHeader        = "endpoint-load-metrics"        // in an answer
	ORCARequestHeader = "endpoint-load-metrics-format" // in a request, to request a report
	ORCAFormat        = "TEXT"                         // value of ORCARequestHeader
)

// orcaNames are the names of fields in load reports, without the engine's prefix that ends at the last dot.
var orcaNames = map[string]Field{
	"num_requests_running": Running, "num_requests_waiting": Waiting,
	"kv_cache_usage_perc": KVUse, "gpu_cache_usage_perc": KVUse,
}

// ParseORCA reads the value of an [ORCAHeader], in TEXT or JSON format, into snap, replacing its content. An engine
// that runs several copies of a model repeats a name for each in TEXT; they are one endpoint, as in [Parser.Parse]. It
// reports whether any field was found.
func ParseORCA(value []byte, snap *Snapshot) bool {
	*snap = Snapshot{}
	format, report, _ := bytes.Cut(bytes.TrimSpace(value), []byte(" "))
	mark := byte('=')
	switch string(format) {
	case "TEXT":
	case "JSON":
		mark = ':'
	default:
		return false
	}
	var copies [fieldCount]float64 // values found of each field
	for len(report) > 0 {
		var entry []byte
		entry, report, _ = bytes.Cut(report, []byte(","))
		field, v, ok := orcaEntry(entry, mark)
		if !ok {
			continue
		}
		copies[field]++
		sum, _ := snap.Value(field)
		if field == KVUse {
			v = min(v, 1)
		}
		snap.set(field, sum+v)
	}
	if use, ok := snap.Value(KVUse); ok {
		snap.set(KVUse, use/copies[KVUse])
	}
	return snap.found != 0
}

// orcaEntry reads a name, the mark and a value. It is not ok for an unknown name or an impossible value.
func orcaEntry(entry []byte, mark byte) (field Field, v float64, ok bool) {
	at := bytes.LastIndexByte(entry, mark)
	if at < 0 {
		return 0, 0, false
	}
	name := bytes.Trim(entry[:at], " \t\"")
	name = name[bytes.LastIndexAny(name, `."`)+1:]
	field, known := orcaNames[string(name)]
	v, ok = number(bytes.TrimRight(entry[at+1:], " \t}"))
	return field, v, known && ok && v >= 0 && v <= maxValue
}

// UpdateReport copies the fields of load reports that are found in newer, except Running, which vLLM does not report.
func (s *Snapshot) UpdateReport(newer *Snapshot) {
	for _, f := range orcaNames {
		if v, ok := newer.Value(f); ok && f != Running {
			s.set(f, v)
		}
	}
}

// Update copies all fields that are found in newer, and keeps the others.
func (s *Snapshot) Update(newer *Snapshot) {
	for f := range fieldCount {
		if v, ok := newer.Value(f); ok {
			s.set(f, v)
		}
	}
	if _, ok := newer.Value(MaxAdapters); ok {
		s.Loaded, s.Waiting = newer.Loaded, newer.Waiting
	}
	s.counters |= newer.counters
	if newer.Engine != AnyEngine {
		s.Engine = newer.Engine
	}
}
