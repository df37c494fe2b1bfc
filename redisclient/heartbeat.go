package redisclient

import (
	"iter"
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
)

// heartbeats are those of this owner in one scope, one after the other.
type heartbeats struct {
	ledger    *ledger
	lists     *candidateLists
	room      *waitingRoom
	current   *heartbeat  // nil if none is in progress
	owners    int         // how many there are in the scope, by the last heartbeat
	heldSince string      // time of Redis since which it has returned none of the leases, by the last heartbeat
	ended     func(error) // runs when one has ended, with why it failed
}

// heartbeat is a heartbeat in progress. It is a sequence of commands, each of which does a part of the work, so that
// Redis can run other commands in between.
type heartbeat struct {
	startSeq uint64 // when it began, by owner.seq
	steps    int    // commands that were answered
	cursor   []byte // where the next command continues
	found    map[lb.LeaseID]bool
	entries  int // leases and tombstones that were found
}

// start begins a heartbeat, unless one is in progress.
func (hb *heartbeats) start(now time.Duration) {
	if hb.current != nil {
		return
	}
	hb.ledger.seq++
	hb.current = &heartbeat{startSeq: hb.ledger.seq, cursor: []byte("0"), found: map[lb.LeaseID]bool{}}
	hb.send(now)
}

// send sends one command of the heartbeat. The lists of candidates that were used since the last one are renewed by it.
func (hb *heartbeats) send(now time.Duration) {
	led := hb.ledger
	lists := hb.lists.takeUsed()
	b := hb.command(lists)
	led.seq++
	sent := led.seq
	led.client.send(now, scriptHeartbeat, &led.node, b, true, func(answered time.Duration, v Value, err error) {
		more := false
		v, grants := splitGrants(v, 8)
		defer led.passOn(answered, grants)
		if err == nil {
			more, err = hb.handle(answered, v, sent)
		}
		if hb.ended(err); err != nil {
			hb.current = nil
			return
		}
		for _, l := range lists {
			if l.knownAt >= 0 {
				l.knownAt = max(l.knownAt, now)
			}
		}
		if more {
			hb.send(answered)
		}
	})
}

// command returns the next command of the heartbeat, which renews the lists.
func (hb *heartbeats) command(lists []*candidateList) []byte {
	led := hb.ledger
	b := scriptHeartbeat.command(nil, 5+len(lists), 6)
	for _, key := range []string{led.keys.Table, led.keys.Rows, led.keys.Owners, led.keys.Leases, led.keys.Turn} {
		b = appendArg(b, key)
	}
	for _, l := range lists {
		b = appendArg(b, l.key)
	}
	b = appendArg(b, led.owner.name)
	b = appendInt(b, led.ttl.Milliseconds())
	b = appendInt(b, dataTTL.Milliseconds())
	b = appendInt(b, listTTL.Milliseconds())
	b = appendArg(b, led.leasesPrefix)
	return appendArg(b, hb.current.cursor)
}

// handle compares a part of the owner's entries in Redis, as a command sent at the given seq found them, with its
// leases, and releases in Redis what it does not hold. It reports whether the heartbeat needs another command. After
// the last one, the leases that Redis does not have are asserted.
func (hb *heartbeats) handle(now time.Duration, v Value, sent uint64) (more bool, _ error) {
	if !isHeartbeatReply(v) {
		return false, ErrGarbage
	}
	goesOn, owners, heldSince, cursor := v.Items[0].Int != 0, v.Items[1].Int, string(v.Items[2].Str), v.Items[3].Str
	leases, tombstones := v.Items[4].Str, v.Items[5].Str
	tickets := v.Items[6].Str
	hb.room.queue = append(hb.room.queue[:0], v.Items[7].Str...)
	hb.owners = int(owners)
	if heldSince != hb.heldSince {
		isFirst := hb.heldSince == ""
		hb.heldSince = heldSince
		if hb.ledger.markUnsynced(sent); !isFirst {
			hb.room.sendAllAgain(now, sent)
		}
	}
	h := hb.current
	h.steps++
	h.cursor = append(h.cursor[:0], cursor...)
	h.entries += len(leases) + len(tombstones) + len(tickets)
	hb.releaseUnknown(now, leases, tombstones, tickets)
	if !goesOn {
		hb.finish(now, sent)
		return false, nil
	}
	if h.steps == maxSteps {
		hb.current = nil // the next one begins again
	}
	return hb.current != nil, nil
}

// isHeartbeatReply reports whether heartbeat.lua can have returned the value.
func isHeartbeatReply(v Value) bool {
	return v.Kind == Array && len(v.Items) == 8 && v.Items[0].Kind == Integer && v.Items[1].Kind == Integer &&
		len(v.Items[3].Str) <= maxCursor && len(v.Items[4].Str)%8 == 0 && len(v.Items[5].Str)%8 == 0 &&
		len(v.Items[6].Str)%8 == 0
}

// releaseUnknown releases those of the entries in Redis that the owner does not hold. Tombstones that may still be
// needed are kept.
func (hb *heartbeats) releaseUnknown(now time.Duration, leases, tombstones, tickets []byte) {
	led := hb.ledger
	var unknown []lb.LeaseID
	giveUp := func(id lb.LeaseID) {
		if r := led.unrefunded[id]; r != nil {
			led.cancel(now, r)
		} else {
			unknown = append(unknown, id)
		}
	}
	for id := range leaseIDs(leases) {
		l, ok := led.leases[id]
		hb.current.found[id] = !ok || l.state != waiting // else it was granted, and the owner has not noticed
		if !ok {
			giveUp(id)
		}
	}
	for id := range leaseIDs(tickets) {
		l, ok := led.leases[id]
		hb.current.found[id] = ok && l.state == waiting
		if !ok { // it may be granted, and charged, before the command
			giveUp(id)
		}
	}
	for id := range leaseIDs(tombstones) {
		if _, ok := led.leases[id]; !ok && now >= led.tombstones[id] {
			unknown = append(unknown, id)
		}
	}
	for ; len(unknown) > 0; unknown = unknown[min(leasesPerCommand, len(unknown)):] {
		ids := unknown[:min(leasesPerCommand, len(unknown))]
		led.sendRelease(now, scriptRelease, led.releaseCommand(true, turn{}, ids...), ids...)
	}
}

// finish ends a heartbeat whose last command was sent at the given seq, and begins to assert the leases that Redis does
// not have, or not as they are.
func (hb *heartbeats) finish(now time.Duration, sent uint64) {
	led := hb.ledger
	h := hb.current
	hb.current = nil
	led.drained = h.entries+len(led.leases) == 0
	for id, r := range led.unrefunded {
		if !h.found[id] && now-r.sentAt > tombstoneTTL { // Redis has nothing of it, nor will it
			delete(led.unrefunded, id)
		}
	}
	hb.room.toSend = append(hb.room.toSend, led.waitersInOrder(func(w *waiter) bool {
		return w.lease.confirmedSeq < h.startSeq && !h.found[w.id] && w.again == nil
	})...)
	led.toAssert = led.toAssert[:0]
	for id, l := range led.leases {
		if l.state == held &&
			(l.unsynced && l.confirmedSeq < sent || l.confirmedSeq < h.startSeq && !h.found[id]) {
			led.toAssert = append(led.toAssert, id)
		}
	}
	led.assertNext(now)
	hb.room.sendNext(now)
}

// leaseIDs returns the ids that heartbeat.lua has concatenated, 8 bytes each.
func leaseIDs(b []byte) iter.Seq[lb.LeaseID] {
	return func(yield func(lb.LeaseID) bool) {
		for r := wire.NewReader(b); r.Len() > 0 && yield(lb.LeaseID(r.Uint64())); {
		}
	}
}
