package discovery

import (
	"errors"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/engines"
)

// ErrSamples is returned for bytes that are no engine samples of this version.
var ErrSamples = errors.New("discovery: no engine samples of this version")

// samplesVersion is the first byte of engine samples in shared memory.
const samplesVersion = 3

const countedBit, frozenBit, goneBit = 1, 2, 4

// EngineSamples are the samples of the engines of one cluster, by address of the endpoint, and the names of the metrics
// that were looked for besides the known ones.
type EngineSamples struct {
	Targets []string
	By      map[string]engines.Sample
	Gone    map[string]engines.Sample // the last of endpoints that are not listed, for what becomes of their caches
}

// NewEngineSamples returns samples of no endpoint.
func NewEngineSamples() EngineSamples {
	return EngineSamples{By: map[string]engines.Sample{}, Gone: map[string]engines.Sample{}}
}

// Append appends a compact form of r to dst: the version, the number of targets and their names, and for each endpoint
//
//   - its address
//   - the times At, ScrapedAt, FreshAt, LostAt and ShownAt, as five int64
//   - a byte of bits: 1 if the load in flight is known, 2 if the page stands still, 4 if the endpoint is gone
//   - the digest of the page, as a uint64
//   - requests and tokens in flight, as two int64
//   - what package metrics appends for the metrics
//
// Texts follow their length, an unsigned varint like the number of targets; all other numbers are little-endian.
func (r *EngineSamples) Append(dst []byte) []byte {
	w := wire.Writer(dst).Byte(samplesVersion).Uvarint(uint64(len(r.Targets)))
	for _, name := range r.Targets {
		w = w.Text(name)
	}
	for addr, e := range r.By {
		w = appendSample(w, addr, &e, 0)
	}
	for addr, e := range r.Gone {
		w = appendSample(w, addr, &e, goneBit)
	}
	return w
}

func appendSample(w wire.Writer, addr string, e *engines.Sample, bits byte) wire.Writer {
	if e.Counted {
		bits |= countedBit
	}
	if e.Frozen {
		bits |= frozenBit
	}
	w = w.Text(addr).Duration(e.At).Duration(e.ScrapedAt).Duration(e.FreshAt).Duration(e.LostAt).Duration(e.ShownAt)
	w = w.Byte(bits).Uint64(e.Page).Int64(e.Inflight.Requests).Int64(e.Inflight.Tokens)
	return e.Snapshot.Append(w)
}

// ParseEngineSamples reads what Append wrote. The error is ErrSamples; the samples are then unusable as a whole.
func ParseEngineSamples(b []byte) (EngineSamples, error) {
	samples := NewEngineSamples()
	r := wire.NewReader(string(b)) // one copy, of which targets and addresses are parts
	if r.Byte() != samplesVersion {
		return EngineSamples{}, ErrSamples
	}
	for n := r.Count(1); n > 0; n-- {
		samples.Targets = append(samples.Targets, r.Text())
	}
	for r.Len() > 0 {
		addr := r.Text()
		e := engines.Sample{At: r.Duration(), ScrapedAt: r.Duration(), FreshAt: r.Duration()}
		e.LostAt, e.ShownAt = r.Duration(), r.Duration()
		bits := r.Byte()
		e.Counted, e.Frozen = bits&countedBit != 0, bits&frozenBit != 0
		e.Page, e.Inflight = r.Uint64(), lb.Load{Requests: r.Int64(), Tokens: r.Int64()}
		rest, ok := e.Snapshot.Read(b[len(b)-r.Len():])
		if !ok || addr == "" {
			return EngineSamples{}, ErrSamples
		}
		r.Take(r.Len() - len(rest))
		if bits&goneBit != 0 {
			samples.Gone[addr] = e
		} else {
			samples.By[addr] = e
		}
	}
	if !r.OK() {
		return EngineSamples{}, ErrSamples
	}
	return samples, nil
}
