package metrics

import (
	"math"

	"github.com/warmgate/warmgate/internal/wire"
)

// Append appends a compact encoding of s to dst, from which [Snapshot.Read] makes an equal Snapshot: the engine u8, Cut
// u8, the bits of the fields found u32 and of the counters u32, the value of each field found as f64, and, if
// MaxAdapters is found, the lists Loaded and Waiting. All is little-endian.
func (s *Snapshot) Append(dst []byte) []byte {
	cut := byte(0)
	if s.Cut {
		cut = 1
	}
	w := wire.Writer(dst).Byte(byte(s.Engine)).Byte(cut).Uint32(s.found).Uint32(s.counters)
	for f := range fieldCount {
		if v, ok := s.Value(f); ok {
			w = w.Float64(v)
		}
	}
	if _, ok := s.Value(MaxAdapters); ok {
		w = s.Waiting.pack(s.Loaded.pack(w))
	}
	return w
}

// Read decodes into s what Append has written, and returns the rest of src. It is not ok if src begins with anything
// else; s is then undefined.
func (s *Snapshot) Read(src []byte) (rest []byte, ok bool) {
	r := wire.NewReader(src)
	engine, cut, found, counters := Engine(r.Byte()), r.Byte(), r.Uint32(), r.Uint32()
	if !r.OK() || engine >= engineCount || found>>fieldCount != 0 || counters>>fieldCount != 0 {
		return nil, false
	}
	*s = Snapshot{Engine: engine, Cut: cut == 1, counters: counters}
	for f := range fieldCount {
		if found>>f&1 == 0 {
			continue
		}
		v := r.Float64()
		if !r.OK() || math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, false
		}
		s.set(f, v)
	}
	if _, adapters := s.Value(MaxAdapters); adapters {
		s.Loaded.unpack(&r)
		s.Waiting.unpack(&r)
	}
	return r.Rest(), r.OK()
}

// pack appends the number of adapters u8 and their digests u64.
func (a *Adapters) pack(w wire.Writer) wire.Writer {
	w = w.Byte(byte(a.N))
	for _, id := range a.IDs[:a.N] {
		w = w.Uint64(id)
	}
	return w
}

// unpack reads what pack has written.
func (a *Adapters) unpack(r *wire.Reader[[]byte]) {
	n := int(r.Byte())
	if n > MaxNames {
		r.Fail()
		return
	}
	for i := range n {
		a.IDs[i] = r.Uint64()
	}
	a.N = n
}
