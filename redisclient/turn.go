package redisclient

import "github.com/warmgate/warmgate/internal/wire"

// turn is what a request that has waited was counted for in the queue.
type turn struct {
	class     uint16
	tenant    uint64
	tokens    int64 // 0: it has not waited
	corrected int64 // to be added to what its class and tenant were served: see NoteServed
}

// append appends the turn in the format of lua/release.lua.
func (t *turn) append(b []byte) []byte {
	var room [18]byte
	return appendArg(b, wire.Writer(room[:0]).Uint16(t.class).Uint64(t.tenant).Float64(float64(t.corrected)))
}
