package memstore

import (
	"errors"
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// swap changes the scope's table in one compare-and-swap: by the pending steps, by what change does to the draft of it,
// and by what waiting requests are granted then. It writes the owner's checkpoint where that is due. change may be
// called several times. Its errors end the swap. With errUnchanged nothing is written, unless the owner has just become
// a member.
func (s *Store) swap(now time.Duration, sc *scope, change func(*draft) error) error {
	d := &s.draft
	for range maxTries {
		t, cas, err := s.read(now, sc)
		if err != nil {
			return err
		}
		wasMember := t.memberOf(s.owner) >= 0
		if t, err = s.join(now, sc, t); err != nil {
			return err
		}
		d.open(now, sc, t)
		for _, st := range sc.pending {
			d.take(st)
		}
		for _, c := range sc.corrections {
			d.correct(now, c)
		}
		err = change(d)
		if errors.Is(err, errUnchanged) && wasMember {
			return nil
		}
		if err != nil && !errors.Is(err, errUnchanged) {
			sc.located = lb.List{} // rows that change has added are not in shared memory
			return err
		}
		d.dispatch(now, s.owner)
		s.packed = d.close(now, s.packed)
		s.log(sc, d.setUsedAt(tickOf(now)), d.steps)
		err = s.kv.Set(tableKey(sc.slot), d.table, cas)
		if errors.Is(err, lb.ErrMismatch) {
			s.Stats.Retries++
			if d.generation() == sc.rowsGeneration && d.generation() != sc.hashesGeneration {
				sc.located = lb.List{} // likewise
			}
			continue
		}
		if err != nil {
			return &storeError{"writing the counts", err}
		}
		s.swapped(sc, d)
		return nil
	}
	return lb.ErrContended
}

// log adds the steps to the log of the owner. Steps that this pushes out of the log must be in the checkpoint, so that
// is written before if necessary.
func (s *Store) log(sc *scope, t table, steps []step) {
	if sc.held.seq()-sc.writtenSeq+uint32(len(steps)) > logLength {
		s.writeCheckpoint(sc)
	}
	m := t.member(t.memberOf(s.owner))
	m.set(s.owner, s.index, sc.held.seq())
	for _, st := range steps {
		m.log(st)
	}
}

// swapped updates what the owner holds after the draft was written, and what has become of waiting requests.
func (s *Store) swapped(sc *scope, d *draft) {
	sc.held = sc.held.grow(d.rows())
	for _, st := range d.steps {
		sc.held.apply(sc.held.seq()+1, st)
	}
	sc.pending, sc.corrections = sc.pending[:0], sc.corrections[:0]
	if sc.hashesGeneration != d.generation() || len(sc.hashes) != d.rows() {
		sc.keepHashes(d.table)
	}
	for _, c := range d.claims {
		s.claimed(sc, d.table, c)
	}
	s.wake(d.woken)
}

// wake has the owners look for what they were granted.
func (s *Store) wake(owners []uint64) {
	for _, owner := range owners {
		s.OnGrant(owner)
	}
}

// maxPending bounds the pending steps of a scope, so that all steps of one swap fit into the log.
const maxPending = logLength - 2

// busyAbove is the number of reservations between two calls of Flush above which a worker is busy.
const busyAbove = 100

// defers reports whether an amendment or a release should wait for the next swap of the scope and be written with that.
// A worker that makes more than a thousand reservations a second makes half as many swaps this way, and writes a
// release about a millisecond later.
// Where requests may wait for what is released, nothing is deferred.
func (s *Store) defers(sc *scope) bool { return s.busy && !sc.queues && len(sc.pending) < maxPending }

// Flush writes the pending steps. Call it about ten times a second.
func (s *Store) Flush(now time.Duration) {
	s.busy = s.reserved > busyAbove
	s.reserved = 0
	for _, sc := range s.scopes {
		if len(sc.pending)+len(sc.corrections) > 0 {
			s.sync(now, sc)
		}
	}
}

// sync makes a swap without a step of its own, for what each swap does besides: it writes the pending steps and makes
// the owner a member of the table. If it fails, the next swap does the same.
func (s *Store) sync(now time.Duration, sc *scope) {
	_ = s.swap(now, sc, func(*draft) error { return nil })
}

// writeCheckpoint writes what the owner holds to shared memory.
func (s *Store) writeCheckpoint(sc *scope) {
	sc.written = s.kv.Set(checkpointKey(sc.slot, s.index), sc.held, 0) == nil
	sc.writtenSeq = sc.held.seq()
}

// join returns the table with this owner as a member. An owner that is not one yet, or not any more because its leases
// were returned after a silence longer than the TTL, adds everything that it holds to the table.
func (s *Store) join(now time.Duration, sc *scope, t table) (table, error) {
	if t.memberOf(s.owner) >= 0 {
		if !sc.written {
			s.writeCheckpoint(sc)
		}
		return t, nil
	}
	if _, err := s.register(now); err != nil {
		return nil, err
	}
	t, err := s.remap(sc, t)
	if err != nil {
		return nil, err
	}
	s.writeCheckpoint(sc)
	if !sc.written {
		return nil, errors.New("memstore: writing a checkpoint failed")
	}
	t = t.withMember()
	t.member(t.members()-1).set(s.owner, s.index, sc.held.seq())
	sc.held.addTo(t)
	return t, nil
}

// register renews the owner in the owner directory, or adds it there. It reports whether the owner was there under its
// index. If not, its leases were returned and its checkpoints may be overwritten by another owner.
func (s *Store) register(now time.Duration) (kept bool, err error) {
	index := -1
	err = updateDirectory(s.kv, func(d directory) (directory, error) {
		kept = d.holds(s.index, s.owner)
		var err error
		d, index, err = d.register(s.owner, s.index, now)
		return d, err
	})
	if err != nil || kept {
		return kept, err
	}
	s.index = index
	for _, sc := range s.scopes {
		sc.written = false
	}
	return false, nil
}

// remap brings what the owner holds to the rows of t, which may be another table than the one in which its leases were
// counted.
func (s *Store) remap(sc *scope, t table) (table, error) {
	var endpoints []uint64 // hashes of those with leases
	for _, l := range s.leases {
		if l.scope == sc && !slices.Contains(endpoints, sc.hashes[l.row]) {
			endpoints = append(endpoints, sc.hashes[l.row])
		}
	}
	for _, h := range endpoints {
		if t.find(h) == noRow {
			var err error
			if t, err = t.withRows(endpoints); err != nil {
				return nil, err
			}
			break
		}
	}
	held := newCheckpoint(s.owner).grow(t.rows())
	for id, l := range s.leases {
		if l.scope == sc {
			l.row = t.find(sc.hashes[l.row])
			s.leases[id] = l
			held.apply(0, step{from: noRow, to: l.row, toTokens: l.tokens})
		}
	}
	held.apply(sc.held.seq(), noStep)
	sc.held, sc.located = held, lb.List{}
	sc.pending = sc.pending[:0] // what the owner holds includes them
	sc.keepHashes(t)
	return t, nil
}

// read returns the scope's table and its version. A scope without a slot gets one.
func (s *Store) read(now time.Duration, sc *scope) (table, uint32, error) {
	slot, t, cas, err := s.tables.find(sc.name, sc.slot)
	if err == nil && t == nil {
		slot, t, cas, err = s.tables.assign(now, sc.name)
	}
	if err != nil {
		return nil, 0, err
	}
	if slot != sc.slot {
		sc.slot, sc.written, sc.located = slot, false, lb.List{}
	}
	return t, cas, nil
}
