package memstore

import (
	"errors"
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
)

// The roster lists the owners of one process and when each was last heard of:
//
//	magic u32, seats u32, swept i64, then per seat: owner u64 (0 = free), beat i64
//
// An owner's seat names its sheets in shared memory, so that the number of keys stays bounded by the number of owners
// that live at the same time, not by all there ever were: keys of shared memory cannot be deleted.
type roster []byte

const (
	rosterKey    = keyPrefix + "roster"
	rosterMagic  = 0x31524757 // "WGR1"
	rosterHeader = 16
	seatSize     = 16
	maxSeats     = 1024
	swapTries    = 64
)

func newRoster() roster {
	r := make(roster, rosterHeader)
	wire.PutUint32(r, 0, rosterMagic)
	return r
}

func (r roster) check() error {
	if len(r) < rosterHeader || wire.Uint32(r, 0) != rosterMagic || len(r) != rosterHeader+r.seats()*seatSize {
		return errDamaged
	}
	return nil
}

func (r roster) seats() int           { return int(wire.Uint32(r, 4)) }
func (r roster) swept() time.Duration { return wire.Duration(r, 8) }
func (r roster) owner(seat int) uint64 {
	return wire.Uint64(r, rosterHeader+seat*seatSize)
}

func (r roster) setSwept(now time.Duration) {
	wire.PutDuration(r, 8, now)
}

func (r roster) beat(seat int) time.Duration {
	return wire.Duration(r, rosterHeader+seat*seatSize+8)
}

func (r roster) set(seat int, owner uint64, now time.Duration) {
	wire.PutUint64(r, rosterHeader+seat*seatSize, owner)
	wire.PutDuration(r, rosterHeader+seat*seatSize+8, now)
}

// alive says whether the owner was heard of within the TTL.
func (r roster) alive(owner uint64, now, ttl time.Duration) bool {
	for i := range r.seats() {
		if r.owner(i) == owner {
			return now-r.beat(i) <= ttl
		}
	}
	return false
}

// seated returns r with the owner on a seat and heard of at now: the preferred seat if it still holds it, else a free
// or a new one.
func (r roster) seated(owner uint64, preferred int, now time.Duration) (roster, int, error) {
	if preferred >= 0 && preferred < r.seats() && r.owner(preferred) == owner {
		r.set(preferred, owner, now)
		return r, preferred, nil
	}
	for i := range r.seats() {
		if r.owner(i) == 0 {
			r.set(i, owner, now)
			return r, i, nil
		}
	}
	if r.seats() >= maxSeats {
		return nil, -1, lb.ErrNoRoom
	}
	r = append(r, make([]byte, seatSize)...)
	wire.PutUint32(r, 4, uint32(r.seats()+1))
	r.set(r.seats()-1, owner, now)
	return r, r.seats() - 1, nil
}

// swapRoster changes the roster in shared memory. change may be called several times and returns nil to leave it.
func swapRoster(kv lb.KV, change func(roster) (roster, error)) error {
	for range swapTries {
		val, cas, err := kv.Get(rosterKey)
		if errors.Is(err, lb.ErrNotFound) {
			return lb.ErrUnready
		}
		if err != nil {
			return &storeError{"reading the roster", err}
		}
		r := roster(val)
		if err := r.check(); err != nil {
			return err
		}
		next, err := change(r)
		if err != nil || next == nil {
			return err
		}
		err = kv.Set(rosterKey, next, cas)
		if !errors.Is(err, lb.ErrMismatch) {
			return err
		}
	}
	return lb.ErrContended
}
