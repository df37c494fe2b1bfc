package memstore

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
	"github.com/warmgate/warmgate/lb/queue"
)

// draft is a table as one swap is about to write it.
type draft struct {
	table
	now    time.Duration
	scope  *scope       // whose table it is
	asking *reservation // that is being put into the queue, nil for none
	queue  *queue.Queue // of the table, nil while it has none
	room   queue.Queue  // memory for it
	budget *budgets     // of the table, nil while they were not looked at
	space  budgets      // memory for them
	// budgetRoom is memory for targets.
	budgetRoom []budget.Target
	steps      []step        // of this owner
	claims     []claim       // grants that this owner has claimed
	woken      []uint64      // other owners with grants to claim
	grants     []queue.Grant // reused by dispatch
	silences   silences
	packed     []byte // memory for the table as it is written
}

func newDraft(kv lb.KV, owner uint64) draft { return draft{silences: silences{kv: kv, self: owner}} }

// claim is a waiting request of this owner that was granted a row.
type claim struct {
	id     lb.LeaseID
	row    int
	tokens int64
}

var _ queue.Loads = (*draft)(nil)

// open makes d a draft of the scope's table at now. A queue that cannot be read is dropped: its owners put their
// requests into a new one.
func (d *draft) open(now time.Duration, sc *scope, t table) {
	d.now = now
	d.scope, d.asking, d.table, d.queue, d.budget = sc, nil, t, nil, nil
	d.steps, d.claims, d.woken, d.silences.known = d.steps[:0], d.claims[:0], d.woken[:0], d.silences.known[:0]
	if !t.hasQueue() {
		return
	}
	if d.room.Read(t[t.queueAt():]) != nil {
		d.table = t[:t.queueAt()]
		return
	}
	d.queue = &d.room
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
func (d *draft) Load(row int) lb.Load { return d.loadOf(row) }

// IsSilent implements [queue.Loads].
func (d *draft) IsSilent(owner uint64) bool { return d.silences.of(owner, d.now, d.table) }

// Add implements [queue.Loads].
func (d *draft) Add(row int, tokens int64) { d.addLoad(row, lb.Load{Requests: 1, Tokens: tokens}) }

// leave takes a ticket of the owner out of the queue. What it was granted is not counted any more, and what it was
// charged is given back.
func (d *draft) leave(owner uint64, id lb.LeaseID) (was queue.Status, row int, tokens int64) {
	if d.queue == nil {
		return queue.Gone, noRow, 0
	}
	if was, row, tokens = d.remove(owner, id); was == queue.Granted {
		d.refund(row, tokens)
	}
	return was, row, tokens
}

// refund gives back what a request was charged at the row.
func (d *draft) refund(row int, tokens int64) {
	d.changeState(row, func(s *budget.State) { s.Refund(millis(d.now), float64(tokens)) })
}

// remove takes a ticket of the owner out of the queue. What it was charged stays.
func (d *draft) remove(owner uint64, id lb.LeaseID) (was queue.Status, row int, tokens int64) {
	d.queue.ReadClock(d.now)
	was, row, tokens = d.queue.Remove(owner, id)
	if was == queue.Granted {
		d.addLoad(row, lb.Load{Requests: -1, Tokens: -tokens})
	}
	return was, row, tokens
}

// dispatch grants open endpoints to waiting requests, and reports whether it has. Those of the owner are claimed at
// once, as far as there is room for their steps in its log. What was granted to a ticket that the owner could not take
// out of the queue when its request ended is granted to others.
func (d *draft) dispatch(now time.Duration, owner uint64) (granted bool) {
	if d.queue == nil {
		return false
	}
	for again := true; again; {
		again = false
		d.grants = d.queue.Dispatch(now, d, d.grants[:0])
		for _, g := range d.grants {
			granted = true
			switch {
			case g.Owner != owner:
				d.wake(g.Owner)
			case !d.isWaiting(g.ID):
				d.leave(owner, g.ID)
				again = true
			case len(d.steps) < logLength:
				d.claim(owner, g.ID)
			}
		}
	}
	return granted
}

// isWaiting reports whether this owner has a request that waits with the id.
func (d *draft) isWaiting(id lb.LeaseID) bool {
	return d.scope.waiters[id] != nil || d.asking != nil && d.asking.id == id
}

// claim takes over what a ticket of the owner was granted, as a lease.
func (d *draft) claim(owner uint64, id lb.LeaseID) {
	if was, row, tokens := d.remove(owner, id); was == queue.Granted {
		d.take(step{from: noRow, to: row, toTokens: tokens})
		d.claims = append(d.claims, claim{id, row, tokens})
	}
}

func (d *draft) wake(owner uint64) {
	if !slices.Contains(d.woken, owner) {
		d.woken = append(d.woken, owner)
	}
}

// close puts the budgets and the queue into the table, which is then complete.
func (d *draft) close(now time.Duration) {
	switch {
	case d.queue == nil && d.budget == nil:
		return
	case d.budget == nil:
		d.packed = append(d.packed[:0], d.table[:d.queueAt()]...)
	default:
		d.packed = d.budget.append(append(d.packed[:0], d.table[:d.budgetAt()]...))
	}
	if d.queue != nil {
		d.packed = d.queue.Append(d.packed, now)
	}
	d.table = d.packed
}

// removeDead takes the tickets of owners out of the queue that are not alive.
func (d *draft) removeDead(owners directory, now, ttl time.Duration) (removed int) {
	if d.queue == nil {
		return 0
	}
	d.queue.ReadClock(now)
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

// takeBack takes back what silent owners have not claimed, for others that wait, and reports whether there was
// some. They wait again in their places once they notice.
func (d *draft) takeBack() (taken bool) {
	if d.queue == nil || d.queue.Waiting() == 0 {
		return false
	}
	for _, g := range d.queue.SilentGrants(d) {
		d.leave(g.Owner, g.ID)
		taken = true
	}
	return taken
}

// correctTurn corrects what the class and the tenant of a request that has ended were served.
func (d *draft) correctTurn(now time.Duration, t *turn) {
	if d.queue != nil && t.corrected != 0 {
		d.queue.Correct(now, t.class, t.tenant, t.corrected)
	}
}
