package metrics

import (
	"encoding/binary"
	"math"
)

// Append appends a compact encoding of s to dst, from which [Snapshot.Read] makes an equal Snapshot: the engine u8, Cut
// u8, the bits of the fields found u32 and of the counters u32, the value of each field found as f64, and, if
// MaxAdapters is found, the lists Loaded and Waiting. All is little-endian.
func (s *Snapshot) Append(dst []byte) []byte {
	cut := byte(0)
	if s.Cut {
		cut = 1
	}
	dst = append(dst, byte(s.Engine), cut)
	dst = binary.LittleEndian.AppendUint32(dst, s.found)
	dst = binary.LittleEndian.AppendUint32(dst, s.counters)
	for f := range fieldCount {
		if v, ok := s.Value(f); ok {
			dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
		}
	}
	if _, ok := s.Value(MaxAdapters); ok {
		dst = s.Waiting.append(s.Loaded.append(dst))
	}
	return dst
}

// Read decodes into s what Append has written, and returns the rest of src. It is not ok if src begins with anything
// else; s is then undefined.
func (s *Snapshot) Read(src []byte) (rest []byte, ok bool) {
	const head = 10
	if len(src) < head || Engine(src[0]) >= engineCount {
		return nil, false
	}
	*s = Snapshot{Engine: Engine(src[0]), Cut: src[1] == 1}
	found, counters := binary.LittleEndian.Uint32(src[2:]), binary.LittleEndian.Uint32(src[6:])
	if found>>fieldCount != 0 || counters>>fieldCount != 0 {
		return nil, false
	}
	s.counters = counters
	src, ok = s.readValues(src[head:], found)
	if _, adapters := s.Value(MaxAdapters); !ok || !adapters {
		return src, ok
	}
	if src, ok = s.Loaded.decode(src); ok {
		src, ok = s.Waiting.decode(src)
	}
	return src, ok
}

// readValues reads the values of the fields whose bits are set. It is not ok if they are incomplete or not finite.
func (s *Snapshot) readValues(src []byte, found uint32) (rest []byte, ok bool) {
	for f := range fieldCount {
		if found>>f&1 == 0 {
			continue
		}
		if len(src) < 8 {
			return nil, false
		}
		v := math.Float64frombits(binary.LittleEndian.Uint64(src))
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, false
		}
		s.set(f, v)
		src = src[8:]
	}
	return src, true
}

// append appends the number of adapters u8 and their digests u64.
func (a *Adapters) append(dst []byte) []byte {
	dst = append(dst, byte(a.N))
	for _, id := range a.IDs[:a.N] {
		dst = binary.LittleEndian.AppendUint64(dst, id)
	}
	return dst
}

// decode reads what append has written.
func (a *Adapters) decode(src []byte) (rest []byte, ok bool) {
	if len(src) == 0 || src[0] > MaxNames || len(src) < 1+8*int(src[0]) {
		return nil, false
	}
	a.N, src = int(src[0]), src[1:]
	for i := range a.N {
		a.IDs[i] = binary.LittleEndian.Uint64(src)
		src = src[8:]
	}
	return src, true
}
