package memstore

import (
	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/queue"
)

// table holds the loads of one scope as one value of shared memory, so that choosing an endpoint and counting the
// request there are one compare-and-swap. Its sections follow each other without padding:
//
//	offset   size  header
//	0        4     magic, "WGT1"
//	4        4     generation: changes when a row is given to an endpoint
//	8        2     R, the number of rows
//	10       2     M, the number of members
//	12       2     S, the length of the scope's name in bytes
//	14       2     tick in which the table was last changed, see prefixindex.Tick
//
//	16             M members of 112 bytes: the owners that have or had leases here
//	  0      8     owner
//	  8      4     sequence number of its latest step
//	  12     2     its index in the owner directory
//	  14     2     0
//	  16     96    its latest 8 steps of 12 bytes, a ring: the step with sequence number n is at n modulo 8
//	    0    2     row in which the lease was counted before the step, 0xffff for none
//	    2    2     row in which it is counted now, 0xffff for none
//	    4    4     tokens that it counted before
//	    8    4     tokens that it counts now
//
//	then           R rows of 12 bytes: the load of an endpoint, the sum over the members
//	  0      4     requests
//	  4      8     tokens
//
//	then           R times 8 bytes: lb.EndpointHash of the row's endpoint, 0 while it has none
//	then           S bytes: the scope's name
//	then           since a plan with budgets came: the budgets, see budgets
//	then           while requests wait, and shortly after: the packed queue, see package queue
//
// The rows also count what was granted to tickets of the queue and not claimed yet.
//
// A row is given to another endpoint only while its load is zero, its budget is unused and there is no queue. As long
// as the generation is the same, so is the endpoint of each row: owners remember which row is whose.
//
// A slot that was never used has one byte instead of a table.
type table []byte

const (
	tableMagic = 0x31544757 // "WGT1"
	headerSize = 16
	memberSize = 16 + logLength*stepSize
	stepSize   = 12
	logLength  = 8 // steps in the log of a member
	rowSize    = 12
	hashSize   = 8
	maxRows    = 4096
	maxScope   = 1<<16 - 1 // bytes of a scope's name
	noRow      = 0xffff
	// spareRows is how many rows must be without load, beside one for each candidate, before rows are given to other
	// endpoints.
	spareRows = 8
)

func newTable(scope string) table {
	t := make(table, headerSize, headerSize+len(scope))
	wire.PutUint32(t, 0, tableMagic)
	wire.PutUint16(t, 12, uint16(len(scope)))
	return append(t, scope...)
}

// check returns errDamaged unless the sections of t fit into its length. Only a checked table may be used.
func (t table) check() error {
	if len(t) < headerSize || wire.Uint32(t, 0) != tableMagic || len(t) < t.budgetAt() || !t.budgetsFit() ||
		t.hasQueue() && !queue.Is(t[t.queueAt():]) {
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
func (t table) budgetAt() int       { return t.scopeAt() + t.scopeLen() }
func (t table) queueAt() int        { return t.budgetAt() + t.budgetLen() }
func (t table) scope() string       { return string(t[t.scopeAt():t.budgetAt()]) }
func (t table) isFor(s string) bool { return string(t[t.scopeAt():t.budgetAt()]) == s }
func (t table) hasQueue() bool      { return len(t) > t.queueAt() }

// usedAt returns the tick in which t was last changed.
func (t table) usedAt() uint16 { return wire.Uint16(t, 14) }

// setUsedAt returns t, last changed in the tick.
func (t table) setUsedAt(tick uint16) table {
	wire.PutUint16(t, 14, tick)
	return t
}

// isIdle reports whether all loads are zero, nobody waits, and no budget has to be remembered.
func (t table) isIdle() bool {
	if t.hasBudgets() {
		return false
	}
	if q, err := queue.Decode(t[t.queueAt():]); err != nil || q.Size() > 0 {
		return false
	}
	for i := range t.rows() {
		if t.loadOf(i) != (lb.Load{}) {
			return false
		}
	}
	return true
}

func (t table) loadOf(row int) lb.Load { return loadAt(t[t.rowsAt():], row) }

// requests returns how many are in flight at all endpoints.
func (t table) requests() (n int64) {
	for row := range t.rows() {
		n += t.loadOf(row).Requests
	}
	return n
}

func (t table) hash(row int) uint64 { return wire.Uint64(t, t.hashesAt()+row*hashSize) }

// addLoad changes the load of a row, never below zero.
func (t table) addLoad(row int, d lb.Load) { addAt(t[t.rowsAt():], row, d) }

// find returns the row of the endpoint with the given hash, or noRow.
func (t table) find(hash uint64) int {
	for i := range t.rows() {
		if t.hash(i) == hash {
			return i
		}
	}
	return noRow
}

// withRows returns t with a row for every given endpoint. Rows without load that are of other endpoints are given away
// once there are many of those; until then the table grows.
func (t table) withRows(hashes []uint64) (table, error) {
	wanted := make(map[uint64]bool, len(hashes))
	for _, h := range hashes {
		wanted[h] = true
	}
	var free []int
	for i := range t.rows() {
		if h := t.hash(i); wanted[h] {
			delete(wanted, h)
		} else if t.loadOf(i) == (lb.Load{}) && t.isUnbudgeted(i) {
			free = append(free, i)
		}
	}
	if len(free) < len(hashes)+spareRows || t.hasQueue() {
		free = nil
	}
	more := max(0, len(wanted)-len(free))
	if t.rows()+more > t.mostRows() {
		return nil, lb.ErrNoRoom
	}
	for i := range more {
		free = append(free, t.rows()+i)
	}
	out := t.grow(more)
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

// grow returns a copy of t with n more rows, which have no endpoint yet.
func (t table) grow(n int) table {
	out := make(table, 0, len(t)+n*(rowSize+hashSize))
	out = append(out, t[:t.hashesAt()]...)
	out = append(out, make([]byte, n*rowSize)...)
	out = append(out, t[t.hashesAt():t.scopeAt()]...)
	out = append(out, make([]byte, n*hashSize)...)
	out = append(out, t[t.scopeAt():]...)
	wire.PutUint16(out, 8, uint16(t.rows()+n))
	return out
}

// apply counts the step in the rows.
func (t table) apply(s step) { s.apply(t[t.rowsAt():], t.rows()) }

func loadAt(rows []byte, i int) lb.Load {
	r := rows[i*rowSize:][:rowSize]
	return lb.Load{Requests: int64(wire.Uint32(r, 0)), Tokens: int64(wire.Uint64(r, 4))}
}

func addAt(rows []byte, i int, d lb.Load) {
	r := rows[i*rowSize:][:rowSize]
	wire.PutUint32(r, 0, uint32(max(0, int64(wire.Uint32(r, 0))+d.Requests)))
	wire.PutUint64(r, 4, uint64(max(0, int64(wire.Uint64(r, 4))+d.Tokens)))
}
