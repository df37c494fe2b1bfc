package memstore

import (
	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
)

// member is an owner in a table, with its latest steps: see table for the format. The steps are a write-ahead log. The
// owner changes the table with every step and writes its checkpoint once in logLength steps. Whoever recomputes what
// the owner holds, also after it has died at any point, applies to the checkpoint the steps that are newer.
type member []byte

// step is a change of one lease. from is the row in which it was counted before and to the row in which it is counted
// now; noRow is none.
type step struct {
	from, to             int
	fromTokens, toTokens int64
}

// noStep changes no count.
var noStep = step{from: noRow, to: noRow}

func (t table) member(i int) member { return member(t[headerSize+i*memberSize:][:memberSize]) }

func (m member) owner() uint64 { return wire.Uint64(m, 0) }
func (m member) seq() uint32   { return wire.Uint32(m, 8) }
func (m member) index() int    { return int(wire.Uint16(m, 12)) }

// step returns the step with the sequence number, which must be one of the latest logLength.
func (m member) step(seq uint32) step {
	r := m[16+int(seq%logLength)*stepSize:]
	return step{
		from: int(wire.Uint16(r, 0)), to: int(wire.Uint16(r, 2)),
		fromTokens: int64(wire.Uint32(r, 4)), toTokens: int64(wire.Uint32(r, 8)),
	}
}

// set makes the owner the member, with its index in the owner directory and the sequence number of its latest step.
func (m member) set(owner uint64, index int, seq uint32) {
	wire.PutUint64(m, 0, owner)
	wire.PutUint32(m, 8, seq)
	wire.PutUint16(m, 12, uint16(index))
}

// log adds a step.
func (m member) log(s step) {
	seq := m.seq() + 1
	wire.PutUint32(m, 8, seq)
	r := m[16+int(seq%logLength)*stepSize:]
	wire.PutUint16(r, 0, uint16(s.from))
	wire.PutUint16(r, 2, uint16(s.to))
	wire.PutUint32(r, 4, uint32(s.fromTokens))
	wire.PutUint32(r, 8, uint32(s.toTokens))
}

// memberOf returns the number of the owner among the members, or -1.
func (t table) memberOf(owner uint64) int {
	for i := range t.members() {
		if t.member(i).owner() == owner {
			return i
		}
	}
	return -1
}

// withMember returns t with one more, empty member at the end.
func (t table) withMember() table {
	out := make(table, 0, len(t)+memberSize)
	out = append(out, t[:t.rowsAt()]...)
	out = append(out, make([]byte, memberSize)...)
	out = append(out, t[t.rowsAt():]...)
	wire.PutUint16(out, 10, uint16(t.members()+1))
	return out
}

// withoutMember returns t without member i. The rows keep its leases.
func (t table) withoutMember(i int) table {
	at := headerSize + i*memberSize
	out := append(append(table(nil), t[:at]...), t[at+memberSize:]...)
	wire.PutUint16(out, 10, uint16(t.members()-1))
	return out
}

// apply counts the step in an array of n rows. Rows that are not there are ignored.
func (s step) apply(rows []byte, n int) {
	if s.from < n {
		addAt(rows, s.from, lb.Load{Requests: -1, Tokens: -s.fromTokens})
	}
	if s.to < n {
		addAt(rows, s.to, lb.Load{Requests: 1, Tokens: s.toTokens})
	}
}
