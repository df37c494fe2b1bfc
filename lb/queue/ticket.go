package queue

import (
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
)

// NoRow is no row of a table.
const NoRow = 0xffff

// MaxWarm is how many endpoints that have its prompt a ticket names at most.
const MaxWarm = 4

// Ticket is a request that begins to wait.
type Ticket struct {
	Owner    uint64
	ID       lb.LeaseID
	Wait     *lb.Wait
	Tokens   int64 // that it adds at an endpoint without its prompt
	List     int   // number of its list of endpoints: see Queue.List
	Wants    int   // row of the full endpoint that it waits for during its patience, NoRow for none
	Patience time.Duration
	Open     bool   // an endpoint of its list is open
	Inflight int64  // requests that are in flight at its endpoints
	Warm     []Warm // endpoints that have some of its prompt, the best first; those after MaxWarm are left out
}

// Warm is an endpoint that has the beginning of a prompt in its KV cache.
type Warm struct {
	Row   int
	Saved int64 // tokens that need not be computed there
}

// places returns how many requests are in flight, 1 at least.
func (t *Ticket) places() float64 { return float64(max(t.Inflight, 1)) }

// AddWarm adds an endpoint, behind those that have as much of the prompt, if it is one of the MaxWarm best.
func (t *Ticket) AddWarm(w Warm) {
	at := len(t.Warm)
	if at < MaxWarm {
		t.Warm = append(t.Warm, w)
	}
	for ; at > 0 && w.Saved > t.Warm[at-1].Saved; at-- {
		if at < MaxWarm {
			t.Warm[at], t.Warm[at-1] = t.Warm[at-1], w
		} else {
			t.Warm[at-1] = w
		}
	}
}

// Status is what has become of a ticket.
type Status uint8

// The states of a ticket.
const (
	Waiting Status = iota
	Granted        // counted at an endpoint, for its owner to claim
	Evicted        // displaced in a full queue, for its owner to notice
	Gone           // not in the queue
)

// record is a ticket that waits as it is packed, 72 bytes:
//
//	offset  size
//	0       8     owner
//	8       8     id
//	16      4     when it came, in ms
//	20      4     its number: of those that came in the same ms, the lower one came first
//	24      4     how long it waits at most, in ms
//	28      4     its aging in ms, 0 for never
//	32      2     its patience in units of 10 ms
//	34      2     row that it wants, 0xffff for none
//	36      1     number of its list
//	37      1     0
//	38      2     how many others it may pass
//	40      2     how often it was passed
//	42      2     0
//	44      4     its tokens
//	48      24    MaxWarm times: row 2 bytes, saved tokens 4 bytes
type record []byte

const recordSize, listAt = 72, 36

func (r record) owner() uint64    { return wire.Uint64(r, 0) }
func (r record) id() lb.LeaseID   { return lb.LeaseID(wire.Uint64(r, 8)) }
func (r record) since() uint32    { return wire.Uint32(r, 16) }
func (r record) number() uint32   { return wire.Uint32(r, 20) }
func (r record) max() uint32      { return wire.Uint32(r, 24) }
func (r record) aging() uint32    { return wire.Uint32(r, 28) }
func (r record) patience() uint32 { return 10 * uint32(wire.Uint16(r, 32)) }
func (r record) wants() int       { return int(wire.Uint16(r, 34)) }
func (r record) list() int        { return int(r[listAt]) }
func (r record) skip() int        { return int(wire.Uint16(r, 38)) }
func (r record) passed() int      { return int(wire.Uint16(r, 40)) }
func (r record) tokens() int64    { return int64(wire.Uint32(r, 44)) }
func (r record) work() float64    { return float64(max(r.tokens(), 1)) }
func (r record) setList(list int) { r[listAt] = uint8(list) }
func (r record) countPassed()     { wire.PutUint16(r, 40, uint16(min(r.passed()+1, 1<<16-1))) }

// before reports whether the ticket came before another one.
func (r record) before(other record) bool {
	d := int32(r.since() - other.since())
	return d < 0 || d == 0 && int32(r.number()-other.number()) < 0
}

// waited returns for how many ms the ticket has waited.
func (r record) waited(now uint32) uint32 { return uint32(max(0, int32(now-r.since()))) }

// saved returns how many tokens need not be computed at the endpoint of the row.
func (r record) saved(row int) int64 {
	for at := warmAt; at < recordSize; at += warmSize {
		if int(wire.Uint16(r, at)) == row {
			return int64(wire.Uint32(r, at+2))
		}
	}
	return 0
}

const warmAt, warmSize = 48, 6

// isPatient reports whether the ticket leaves an endpoint that saves so many tokens here to others while it waits for
// one that saves so many there: no longer than it takes to compute the difference, of which its patience is the whole.
func (r record) isPatient(waited uint32, there, here int64) bool {
	patience := r.patience()
	return there > here && waited < patience && float64(waited)*float64(there) < float64(patience)*float64(there-here)
}

// bestSaved returns how many tokens need not be computed where most of the prompt is, the endpoint of the row excepted.
func (r record) bestSaved(except int) (best int64) {
	for at := warmAt; at < recordSize; at += warmSize {
		if row := int(wire.Uint16(r, at)); row != except {
			best = max(best, int64(wire.Uint32(r, at+2)))
		}
	}
	return best
}

func (r record) u16(at int) uint16 { return wire.Uint16(r, at) }

// newRecord packs a ticket with the number.
func newRecord(t *Ticket, number uint32) record {
	r := make(record, recordSize)
	wire.PutUint64(r, 0, t.Owner)
	wire.PutUint64(r, 8, uint64(t.ID))
	wire.PutUint32(r, 16, millis(t.Wait.Since))
	wire.PutUint32(r, 20, number)
	wire.PutUint32(r, 24, millis(min(t.Wait.Max, MaxTime)))
	wire.PutUint32(r, 28, millis(min(t.Wait.Aging, MaxTime)))
	wire.PutUint16(r, 32, uint16(min(min(t.Patience, MaxTime)/lb.PatienceStep, 1<<16-1)))
	wire.PutUint16(r, 34, uint16(t.Wants))
	r.setList(t.List)
	wire.PutUint16(r, 38, uint16(min(max(t.Wait.Skip, 0), MaxSkip)))
	wire.PutUint32(r, 44, uint32(min(max(t.Tokens, 0), lb.MaxTokens)))
	for i := range MaxWarm {
		row, saved := NoRow, int64(0)
		if i < len(t.Warm) {
			row, saved = t.Warm[i].Row, min(max(t.Warm[i].Saved, 0), t.Tokens, lb.MaxTokens)
		}
		wire.PutUint16(r, warmAt+warmSize*i, uint16(row))
		wire.PutUint32(r, warmAt+warmSize*i+2, uint32(saved))
	}
	return r
}

// Bounds of how a request may wait. Larger values count as these.
const (
	MaxTime = 24 * time.Hour // differences of times in ms must fit into 31 bits
	MaxSkip = 1000
)

// millis returns a time or a duration in ms, modulo 2^32: times are only compared with others nearby.
func millis(d time.Duration) uint32 { return uint32(d / time.Millisecond) }
