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
func (l *ledger) swap(now time.Duration, sc *scope, change func(*draft) error) error {
	d := &l.draft
	for range maxTries {
		t, cas, err := l.read(now, sc)
		if err != nil {
			return err
		}
		wasMember := t.memberOf(l.self.owner) >= 0
		if t, err = l.join(now, sc, t); err != nil {
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
		d.dispatch(now, l.self.owner)
		d.close(now)
		l.log(sc, d.setUsedAt(tickOf(now)), d.steps)
		err = l.kv.Set(tableKey(sc.slot), d.table, cas)
		if errors.Is(err, lb.ErrMismatch) {
			l.stats.Retries++
			if d.generation() == sc.rowsGeneration && d.generation() != sc.hashesGeneration {
				sc.located = lb.List{} // likewise
			}
			continue
		}
		if err != nil {
			return &storeError{"writing the counts", err}
		}
		l.swapped(sc, d)
		return nil
	}
	return lb.ErrContended
}

// log adds the steps to the log of the owner. Steps that this pushes out of the log must be in the checkpoint, so that
// is written before if necessary.
func (l *ledger) log(sc *scope, t table, steps []step) {
	if sc.held.seq()-sc.writtenSeq+uint32(len(steps)) > logLength {
		l.writeCheckpoint(sc)
	}
	m := t.member(t.memberOf(l.self.owner))
	m.set(l.self.owner, l.self.index, sc.held.seq())
	for _, st := range steps {
		m.log(st)
	}
}

// swapped updates what the owner holds after the draft was written, and what has become of waiting requests.
func (l *ledger) swapped(sc *scope, d *draft) {
	sc.held = sc.held.grow(d.rows())
	for _, st := range d.steps {
		sc.held.apply(sc.held.seq()+1, st)
	}
	sc.pending, sc.corrections = sc.pending[:0], sc.corrections[:0]
	if sc.hashesGeneration != d.generation() || len(sc.hashes) != d.rows() {
		sc.keepHashes(d.table)
	}
	for _, c := range d.claims {
		l.requests.claimed(sc, d, c)
	}
	l.wake(d.woken)
}

// writeCheckpoint writes what the owner holds to shared memory.
func (l *ledger) writeCheckpoint(sc *scope) {
	sc.written = l.kv.Set(checkpointKey(sc.slot, l.self.index), sc.held, 0) == nil
	sc.writtenSeq = sc.held.seq()
}

// join returns the table with this owner as a member. An owner that is not one yet, or not any more because its leases
// were returned after a silence longer than the TTL, adds everything that it holds to the table.
func (l *ledger) join(now time.Duration, sc *scope, t table) (table, error) {
	if t.memberOf(l.self.owner) >= 0 {
		if !sc.written {
			l.writeCheckpoint(sc)
		}
		return t, nil
	}
	if _, err := l.register(now); err != nil {
		return nil, err
	}
	t, err := l.remap(sc, t)
	if err != nil {
		return nil, err
	}
	l.writeCheckpoint(sc)
	if !sc.written {
		return nil, errors.New("memstore: writing a checkpoint failed")
	}
	t = t.withMember()
	t.member(t.members()-1).set(l.self.owner, l.self.index, sc.held.seq())
	sc.held.addTo(t)
	return t, nil
}

// remap brings what the owner holds to the rows of t, which may be another table than the one in which its leases were
// counted.
func (l *ledger) remap(sc *scope, t table) (table, error) {
	var endpoints []uint64 // hashes of those with leases
	leases := l.requests.leases
	for _, one := range leases {
		if one.scope == sc && !slices.Contains(endpoints, sc.hashes[one.row]) {
			endpoints = append(endpoints, sc.hashes[one.row])
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
	held := newCheckpoint(l.self.owner).grow(t.rows())
	for id, one := range leases {
		if one.scope == sc {
			one.row = t.find(sc.hashes[one.row])
			leases[id] = one
			held.apply(0, step{from: noRow, to: one.row, toTokens: one.tokens})
		}
	}
	held.apply(sc.held.seq(), noStep)
	sc.held, sc.located = held, lb.List{}
	sc.pending = sc.pending[:0] // what the owner holds includes them
	sc.keepHashes(t)
	return t, nil
}

// read returns the scope's table and its version. A scope without a slot gets one.
func (l *ledger) read(now time.Duration, sc *scope) (table, uint32, error) {
	slot, t, cas, err := l.tables.find(sc.name, sc.slot)
	if err == nil && t == nil {
		slot, t, cas, err = l.tables.assign(now, sc.name)
	}
	if err != nil {
		return nil, 0, err
	}
	if slot != sc.slot {
		sc.slot, sc.written, sc.located = slot, false, lb.List{}
	}
	return t, cas, nil
}
