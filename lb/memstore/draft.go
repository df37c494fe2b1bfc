package memstore

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/queue"
)

// draft is a table as one swap is about to write it.
type draft struct {
	table
	queue  *queue.Queue  // of the table, nil while it has none
	room   queue.Queue   // memory for it
	steps  []step        // of this owner
	claims []claim       // grants that this owner has claimed
	woken  []uint64      // other owners with grants to claim
	grants []queue.Grant // reused by dispatch
}

// claim is a waiting request of this owner that was granted a row.
type claim struct {
	id     lb.LeaseID
	row    int
	tokens int64
}

var _ queue.Loads = (*draft)(nil)

// open makes d a draft of the table.
func (d *draft) open(t table) error {
	d.table, d.queue = t, nil
	d.steps, d.claims, d.woken = d.steps[:0], d.claims[:0], d.woken[:0]
	if !t.hasQueue() {
		return nil
	}
	if d.room.Read(t[t.queueAt():]) != nil {
		return errDamaged
	}
	d.queue = &d.room
	return nil
}

// begin gives the table an empty queue if it has none.
func (d *draft) begin() {
	if d.queue == nil {
		_ = d.room.Read(nil)
		d.queue = &d.room
	}
}

// take counts a step of this owner.
func (d *draft) take(st step) {
	d.apply(st)
	d.steps = append(d.steps, st)
}

// Load implements [queue.Loads].
func (d *draft) Load(row int) lb.Load { return d.load(row) }

// Add implements [queue.Loads].
func (d *draft) Add(row int, tokens int64) { d.add(row, lb.Load{Requests: 1, Tokens: tokens}) }

// leave takes a ticket of the owner out of the queue. What it was granted is not counted any more.
func (d *draft) leave(owner uint64, id lb.LeaseID) (was queue.Status, row int, tokens int64) {
	if d.queue == nil {
		return queue.Gone, noRow, 0
	}
	was, row, tokens = d.queue.Remove(owner, id)
	if was == queue.Granted {
		d.add(row, lb.Load{Requests: -1, Tokens: -tokens})
	}
	return was, row, tokens
}

// dispatch grants open endpoints to waiting requests, and reports whether it has. Those of the owner are claimed at
// once, as far as there is room for their steps in its log.
func (d *draft) dispatch(now time.Duration, owner uint64) (granted bool) {
	if d.queue == nil {
		return false
	}
	d.grants = d.queue.Dispatch(now, d, d.grants[:0])
	for _, g := range d.grants {
		switch {
		case g.Owner != owner:
			d.wake(g.Owner)
		case len(d.steps) < logLength:
			d.claim(owner, g.ID)
		}
	}
	return len(d.grants) > 0
}

// claim takes over what a ticket of the owner was granted, as a lease.
func (d *draft) claim(owner uint64, id lb.LeaseID) {
	if was, row, tokens := d.leave(owner, id); was == queue.Granted {
		d.take(step{from: noRow, to: row, toTokens: tokens})
		d.claims = append(d.claims, claim{id, row, tokens})
	}
}

func (d *draft) wake(owner uint64) {
	if !slices.Contains(d.woken, owner) {
		d.woken = append(d.woken, owner)
	}
}

// close puts the queue into the table, which is then complete. buf is memory to reuse.
func (d *draft) close(now time.Duration, buf []byte) []byte {
	if d.queue != nil {
		buf = append(buf[:0], d.table[:d.queueAt()]...)
		buf = d.queue.Append(buf, now)
		d.table = buf
	}
	return buf
}

// removeDead takes the tickets of owners out of the queue that are not alive.
func (d *draft) removeDead(owners directory, now, ttl time.Duration) (removed int) {
	if d.queue == nil {
		return 0
	}
	return d.queue.RemoveOwners(func(owner uint64) bool { return owners.alive(owner, now, ttl) })
}

// addGrants adds to rows what was granted and not claimed yet.
func (d *draft) addGrants(rows []byte) {
	if d.queue == nil {
		return
	}
	d.queue.EachGrant(func(row int, tokens int64) {
		if row < len(rows)/rowSize {
			addAt(rows, row, lb.Load{Requests: 1, Tokens: tokens})
		}
	})
}
