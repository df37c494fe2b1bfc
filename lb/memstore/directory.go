package memstore

import (
	"errors"
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
)

// directory is the owner directory: the owners of one process and when each sent its latest heartbeat.
//
//	offset    size  value
//	0         4     magic, "WGR1"
//	4         4     number of entries
//	8         8     time of the latest sweep over all tables
//	16 + 16i  8     entry with index i: the owner, 0 if the entry is free
//	24 + 16i  8     time of the owner's latest heartbeat
//
// Times are in nanoseconds since the epoch of the clock that all VMs share. An owner's index is part of the keys of its
// checkpoints, so that the number of keys is bounded by the owners that are alive at the same time: keys of shared
// memory cannot be deleted.
type directory []byte

const (
	directoryMagic  = 0x31524757 // "WGR1"
	directoryHeader = 16
	directoryEntry  = 16
	maxOwners       = 1024
)

// maxTries is how often a compare-and-swap is tried before the store gives up with [lb.ErrContended].
const maxTries = 64

func newDirectory() directory {
	d := make(directory, directoryHeader)
	wire.PutUint32(d, 0, directoryMagic)
	return d
}

// check returns errDamaged unless the entries of d add up to its length. Only a checked directory may be used.
func (d directory) check() error {
	if len(d) < directoryHeader || wire.Uint32(d, 0) != directoryMagic ||
		len(d) != directoryHeader+d.size()*directoryEntry {
		return errDamaged
	}
	return nil
}

// size returns the number of entries, free ones included.
func (d directory) size() int { return int(wire.Uint32(d, 4)) }

func (d directory) sweptAt() time.Duration       { return wire.Duration(d, 8) }
func (d directory) setSweptAt(now time.Duration) { wire.PutDuration(d, 8, now) }

// owner returns the owner with the index, 0 if the entry is free.
func (d directory) owner(index int) uint64 {
	return wire.Uint64(d, directoryHeader+index*directoryEntry)
}

// heartbeat returns the time of the latest heartbeat of the owner with the index.
func (d directory) heartbeat(index int) time.Duration {
	return wire.Duration(d, directoryHeader+index*directoryEntry+8)
}

func (d directory) set(index int, owner uint64, now time.Duration) {
	wire.PutUint64(d, directoryHeader+index*directoryEntry, owner)
	wire.PutDuration(d, directoryHeader+index*directoryEntry+8, now)
}

// holds reports whether the index is that of the owner.
func (d directory) holds(index int, owner uint64) bool {
	return index >= 0 && index < d.size() && d.owner(index) == owner
}

// alive reports whether the owner is in the directory and its latest heartbeat no older than the TTL.
func (d directory) alive(owner uint64, now, ttl time.Duration) bool {
	for i := range d.size() {
		if d.owner(i) == owner {
			return now-d.heartbeat(i) <= ttl
		}
	}
	return false
}

// register returns d with a heartbeat of the owner at now, and the owner's index: as before if it still holds that,
// else that of a free or a new entry.
func (d directory) register(owner uint64, before int, now time.Duration) (directory, int, error) {
	if d.holds(before, owner) {
		d.set(before, owner, now)
		return d, before, nil
	}
	for i := range d.size() {
		if d.owner(i) == 0 {
			d.set(i, owner, now)
			return d, i, nil
		}
	}
	if d.size() >= maxOwners {
		return nil, -1, lb.ErrNoRoom
	}
	d = append(d, make([]byte, directoryEntry)...)
	wire.PutUint32(d, 4, uint32(d.size()+1))
	d.set(d.size()-1, owner, now)
	return d, d.size() - 1, nil
}

// updateDirectory changes the directory in shared memory by a compare-and-swap. change may be called several times; it
// returns nil to change nothing.
func updateDirectory(kv lb.KV, change func(directory) (directory, error)) error {
	for range maxTries {
		val, cas, err := kv.Get(directoryKey)
		if errors.Is(err, lb.ErrNotFound) {
			return lb.ErrUnready
		}
		if err != nil {
			return &storeError{"reading the owner directory", err}
		}
		d := directory(val)
		if err := d.check(); err != nil {
			return err
		}
		next, err := change(d)
		if err != nil || next == nil {
			return err
		}
		err = kv.Set(directoryKey, next, cas)
		if !errors.Is(err, lb.ErrMismatch) {
			return err
		}
	}
	return lb.ErrContended
}
