package memstore

import (
	"errors"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
)

// A table holds the counts of one scope as one value of a [lb.KV], so that choosing and reserving are one swap:
//
//	header   magic u32, generation u32, rows u16, members u16, scope length u16, when it was last used u16, in ticks
//	members  one per owner with leases here, memberSize bytes each: see member
//	rows     requests u32, tokens u64: the sum over the members
//	hashes   u64 per row: xxhash of the endpoint's address
//	scope    the scope's name
//
// The generation changes whenever a row comes to stand for another endpoint, so that an owner may remember which row
// is whose. A row is given to another endpoint only while it counts nothing.
type table []byte

const (
	tableMagic  = 0x31544757 // "WGT1"
	headerSize  = 16
	memberSize  = 16 + stepsKept*stepSize
	stepSize    = 12
	stepsKept   = 8
	rowSize     = 12
	hashSize    = 8
	maxRows     = 4096
	maxScope    = 1<<16 - 1 // bytes of a scope's name
	noRow       = 0xffff
	rowsToSpare = 8
)

var errDamaged = errors.New("lb: damaged table in shared memory")

func newTable(scope string) table {
	t := make(table, headerSize, headerSize+len(scope))
	wire.PutUint32(t, 0, tableMagic)
	wire.PutUint16(t, 12, uint16(len(scope)))
	return append(t, scope...)
}

// check returns errDamaged unless the sections of t add up to its length. Only a checked table may be used.
func (t table) check() error {
	if len(t) < headerSize || wire.Uint32(t, 0) != tableMagic || len(t) != t.scopeAt()+t.scopeLen() {
		return errDamaged
	}
	return nil
}

func (t table) generation() uint32  { return wire.Uint32(t, 4) }
func (t table) rows() int           { return int(wire.Uint16(t, 8)) }
func (t table) members() int        { return int(wire.Uint16(t, 10)) }
func (t table) scopeLen() int       { return int(wire.Uint16(t, 12)) }
func (t table) rowsAt() int         { return headerSize + t.members()*memberSize }
func (t table) hashesAt() int       { return t.rowsAt() + t.rows()*rowSize }
func (t table) scopeAt() int        { return t.hashesAt() + t.rows()*hashSize }
func (t table) isFor(s string) bool { return string(t[t.scopeAt():]) == s }

// used returns the tick in which t was last used, by the clock of pages: see seenTick.
func (t table) used() uint16 { return wire.Uint16(t, 14) }

// at returns t, last used in the tick.
func (t table) at(tick uint16) table {
	wire.PutUint16(t, 14, tick)
	return t
}

// isIdle says whether nothing is counted in t.
func (t table) isIdle() bool {
	for i := range t.rows() {
		if t.load(i) != (lb.Load{}) {
			return false
		}
	}
	return true
}

func (t table) load(row int) lb.Load { return loadAt(t[t.rowsAt():], row) }

func (t table) hash(row int) uint64 {
	return wire.Uint64(t, t.hashesAt()+row*hashSize)
}

// add changes the count of a row, never below zero.
func (t table) add(row int, d lb.Load) { addAt(t[t.rowsAt():], row, d) }

// find returns the row of the endpoint with the given address hash, or noRow.
func (t table) find(hash uint64) int {
	for i := range t.rows() {
		if t.hash(i) == hash {
			return i
		}
	}
	return noRow
}

// withRows returns t with a row for every given endpoint. Rows that count nothing and stand for none of them are given
// away once there are many of those; else the table grows.
func (t table) withRows(hashes []uint64) (table, error) {
	wanted := make(map[uint64]bool, len(hashes))
	for _, h := range hashes {
		wanted[h] = true
	}
	var free []int
	for i := range t.rows() {
		if h := t.hash(i); wanted[h] {
			delete(wanted, h)
		} else if t.load(i) == (lb.Load{}) {
			free = append(free, i)
		}
	}
	if len(free) < len(hashes)+rowsToSpare {
		free = nil
	}
	more := max(0, len(wanted)-len(free))
	if t.rows()+more > maxRows {
		return nil, lb.ErrNoRoom
	}
	for i := range more {
		free = append(free, t.rows()+i)
	}
	out := t.grown(more)
	for _, h := range hashes {
		if wanted[h] {
			delete(wanted, h)
			wire.PutUint64(out, out.hashesAt()+free[0]*hashSize, h)
			free = free[1:]
		}
	}
	wire.PutUint32(out, 4, t.generation()+1)
	return out, nil
}

// grown returns a copy of t with n more rows, which stand for no endpoint yet.
func (t table) grown(n int) table {
	out := make(table, 0, len(t)+n*(rowSize+hashSize))
	out = append(out, t[:t.hashesAt()]...)
	out = append(out, make([]byte, n*rowSize)...)
	out = append(out, t[t.hashesAt():t.scopeAt()]...)
	out = append(out, make([]byte, n*hashSize)...)
	out = append(out, t[t.scopeAt():]...)
	wire.PutUint16(out, 8, uint16(t.rows()+n))
	return out
}

// A member is an owner that holds leases in the table: owner u64, seq u32, seat u16, 0 u16, then its last steps in a
// ring. They are a write-ahead log: the owner swaps the table for every step and writes its sheet once in stepsKept, so
// whoever adds up the sheets, also after the owner's death at any point, completes each with the steps that are newer.
type member []byte

// step is a change of one lease: from is what it counted before, to what it counts now; either row may be noRow. In the
// ring it is from u16, to u16, from tokens u32, to tokens u32.
type step struct {
	from, to             int
	fromTokens, toTokens int64
}

func (t table) member(i int) member { return member(t[headerSize+i*memberSize:][:memberSize]) }

func (m member) owner() uint64 { return wire.Uint64(m, 0) }
func (m member) seq() uint32   { return wire.Uint32(m, 8) }
func (m member) seat() int     { return int(wire.Uint16(m, 12)) }

// step returns the step of the given sequence number, one of the last stepsKept.
func (m member) step(seq uint32) step {
	r := m[16+int(seq%stepsKept)*stepSize:]
	return step{
		from: int(wire.Uint16(r, 0)), to: int(wire.Uint16(r, 2)),
		fromTokens: int64(wire.Uint32(r, 4)), toTokens: int64(wire.Uint32(r, 8)),
	}
}

// sit makes the owner the member, at the given seat and sequence number.
func (m member) sit(owner uint64, seat int, seq uint32) {
	wire.PutUint64(m, 0, owner)
	wire.PutUint32(m, 8, seq)
	wire.PutUint16(m, 12, uint16(seat))
}

// log adds a step.
func (m member) log(s step) {
	seq := m.seq() + 1
	wire.PutUint32(m, 8, seq)
	r := m[16+int(seq%stepsKept)*stepSize:]
	wire.PutUint16(r, 0, uint16(s.from))
	wire.PutUint16(r, 2, uint16(s.to))
	wire.PutUint32(r, 4, uint32(s.fromTokens))
	wire.PutUint32(r, 8, uint32(s.toTokens))
}

// memberOf returns the index of the owner among the members, or -1.
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

// withoutMember returns t without member i; the rows stay as they are.
func (t table) withoutMember(i int) table {
	at := headerSize + i*memberSize
	out := append(append(table(nil), t[:at]...), t[at+memberSize:]...)
	wire.PutUint16(out, 10, uint16(t.members()-1))
	return out
}

// apply counts the step in the rows.
func (t table) apply(s step) { s.apply(t[t.rowsAt():], t.rows()) }

// apply counts the step in an array of n rows.
func (s step) apply(rows []byte, n int) {
	if s.from < n {
		addAt(rows, s.from, lb.Load{Requests: -1, Tokens: -s.fromTokens})
	}
	if s.to < n {
		addAt(rows, s.to, lb.Load{Requests: 1, Tokens: s.toTokens})
	}
}

func loadAt(rows []byte, i int) lb.Load {
	r := rows[i*rowSize:]
	return lb.Load{Requests: int64(wire.Uint32(r, 0)), Tokens: int64(wire.Uint64(r, 4))}
}

func addAt(rows []byte, i int, d lb.Load) {
	r, l := rows[i*rowSize:], loadAt(rows, i)
	wire.PutUint32(r, 0, uint32(max(0, l.Requests+d.Requests)))
	wire.PutUint64(r, 4, uint64(max(0, l.Tokens+d.Tokens)))
}
