package metrics

import (
	"math"

	"github.com/warmgate/warmgate/internal/wire"
)

// Append appends a compact form of l to dst, from which [Load.Read] makes an equal Load: the engine, a byte that says if it was cut,
// the sets of fields that were found and that grow, the value of each as a float64, and the lists of adapters if there are any. All
// is little-endian.
func (l *Load) Append(dst []byte) []byte {
	cut := byte(0)
	if l.Cut {
		cut = 1
	}
	w := wire.Writer(dst).Byte(byte(l.Engine)).Byte(cut).Uint32(l.found).Uint32(l.grows)
	for f := range fields {
		if v, ok := l.Value(f); ok {
			w = w.Float64(v)
		}
	}
	if _, ok := l.Value(MaxAdapters); ok {
		w = l.Waiting.pack(l.Loaded.pack(w))
	}
	return w
}

// Read reads what Append wrote into l, and returns what stands behind it. It is not ok for anything else; l is then of no use.
func (l *Load) Read(src []byte) (rest []byte, ok bool) {
	r := wire.NewReader(src)
	engine, cut, found, grows := Engine(r.Byte()), r.Byte(), r.Uint32(), r.Uint32()
	if !r.OK() || engine >= engines || found>>fields != 0 || grows>>fields != 0 {
		return nil, false
	}
	*l = Load{Engine: engine, Cut: cut == 1, grows: grows}
	for f := range fields {
		if found>>f&1 == 0 {
			continue
		}
		v := r.Float64()
		if !r.OK() || math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, false
		}
		l.set(f, v)
	}
	if _, there := l.Value(MaxAdapters); there {
		l.Loaded.unpack(&r)
		l.Waiting.unpack(&r)
	}
	return r.Rest(), r.OK()
}

func (a *Adapters) pack(w wire.Writer) wire.Writer {
	w = w.Byte(byte(a.N))
	for _, id := range a.IDs[:a.N] {
		w = w.Uint64(id)
	}
	return w
}

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
