package memstore

import (
	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
)

// task is a task as it is in a table, 59 bytes:
//
//	offset  size
//	0       16    id
//	16      8     key, 0 for none
//	24      8     hash of its endpoint
//	32      8     when it ends, or is forgotten if it has ended, in ms, float64
//	40      8     for how long it lives unless it is renewed, in ms, float64
//	48      8     tokens that it was charged and counts, float64
//	56      2     row in which it is counted
//	58      1     status: 0 if it lives, else an lb.TaskEnd
type task struct {
	id      lb.TaskID
	key     uint64
	hash    uint64
	expires float64
	ttl     float64
	tokens  float64
	row     int
	status  lb.TaskEnd
}

const taskSize = 59

func readTask(in *wire.Reader[[]byte]) (t task) {
	copy(t.id[:], in.Take(len(t.id)))
	t.key, t.hash = in.Uint64(), in.Uint64()
	t.expires, t.ttl, t.tokens = in.Float64(), in.Float64(), in.Float64()
	t.row, t.status = int(in.Uint16()), lb.TaskEnd(in.Byte())
	return t
}

func (t *task) append(w wire.Writer) wire.Writer {
	return w.Raw(string(t.id[:])).Uint64(t.key).Uint64(t.hash).Float64(t.expires).Float64(t.ttl).Float64(t.tokens).
		Uint16(uint16(t.row)).Byte(uint8(t.status))
}
