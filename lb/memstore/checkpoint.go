package memstore

import (
	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
)

// checkpoint is what one owner holds in one table as of one of its steps. Later steps are in the log of the table's
// member. Only its owner writes it, so it needs no compare-and-swap:
//
//	offset  size  value
//	0       8     owner
//	8       4     sequence number of the latest step that is included
//	12      4     number of rows; fewer than the table has if that has grown since
//	16            rows as in a table, 12 bytes each: requests u32, tokens u64
type checkpoint []byte

const checkpointHeader = 16

func newCheckpoint(owner uint64) checkpoint {
	c := make(checkpoint, checkpointHeader)
	wire.PutUint64(c, 0, owner)
	return c
}

// check reports whether c is a complete checkpoint of the owner. Only a checked one may be used.
func (c checkpoint) check(owner uint64) bool {
	return len(c) >= checkpointHeader && wire.Uint64(c, 0) == owner && len(c) == checkpointHeader+c.rows()*rowSize
}

func (c checkpoint) seq() uint32 { return wire.Uint32(c, 8) }
func (c checkpoint) rows() int   { return int(wire.Uint32(c, 12)) }

func (c checkpoint) load(row int) lb.Load { return loadAt(c[checkpointHeader:], row) }

// isEmpty reports whether the owner holds nothing.
func (c checkpoint) isEmpty() bool {
	for i := range c.rows() {
		if c.load(i) != (lb.Load{}) {
			return false
		}
	}
	return true
}

// grow returns c with n rows at least.
func (c checkpoint) grow(n int) checkpoint {
	if n <= c.rows() {
		return c
	}
	c = append(c, make([]byte, (n-c.rows())*rowSize)...)
	wire.PutUint32(c, 12, uint32(n))
	return c
}

// apply counts the step with the sequence number seq.
func (c checkpoint) apply(seq uint32, s step) {
	s.apply(c[checkpointHeader:], c.rows())
	wire.PutUint32(c, 8, seq)
}

// addTo adds what the owner holds to the rows of the table.
func (c checkpoint) addTo(t table) {
	for i := range min(c.rows(), t.rows()) {
		if l := c.load(i); l != (lb.Load{}) {
			t.addLoad(i, l)
		}
	}
}
