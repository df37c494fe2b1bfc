package redisclient

import (
	"time"

	"github.com/warmgate/warmgate/internal/order"
	"github.com/warmgate/warmgate/lb"
)

// leasesPerCommand is how many leases one command asserts or releases.
const leasesPerCommand = 50

// ledger is what this owner has in one scope: its leases, as Redis should have them.
type ledger struct {
	place
	index      map[lb.LeaseID]*lease // those of all scopes
	leases     map[lb.LeaseID]*lease
	waiters    map[lb.LeaseID]*waiter       // those of them that wait
	tombstones map[lb.LeaseID]time.Duration // that may be in Redis, and until when
	unrefunded map[lb.LeaseID]*reservation  // with budgets, and given up: they may have been charged
	lastUsed   time.Duration
	drained    bool // the last heartbeat found nothing of this owner, and nothing was sent since

	toAssert  []lb.LeaseID // leases that Redis does not count as they are
	asserting bool         // a command that asserts some of them is on its way
	// asserted is called after the answer to each such command, once the next one was sent.
	asserted func(now time.Duration)
}

// addLease adds a lease to the scope.
func (led *ledger) addLease(now time.Duration, id lb.LeaseID, l *lease) *lease {
	led.lastUsed, led.drained = now, false
	l.ledger = led
	led.index[id], led.leases[id] = l, l
	return l
}

// removeLease removes a lease from the scope, and from those that wait in it.
func (led *ledger) removeLease(id lb.LeaseID) {
	delete(led.leases, id)
	delete(led.waiters, id)
	delete(led.index, id)
}

// waitersInOrder returns those of the scope's requests that wait for which is is true, in the order in which they came.
func (led *ledger) waitersInOrder(is func(*waiter) bool) (all []*waiter) {
	for _, w := range led.waiters {
		if is(w) {
			all = append(all, w)
		}
	}
	order.By(all, func(a, b **waiter) bool {
		return (*a).since < (*b).since || (*a).since == (*b).since && (*a).id < (*b).id
	})
	return all
}

// keepForTasks has heartbeats go on for as long as a task may live.
func (led *ledger) keepForTasks(now, ttl time.Duration) {
	led.lastUsed, led.drained = max(led.lastUsed, now+ttl), false
}

// hold makes a lease one that was granted.
func (led *ledger) hold(l *lease, reply reservationReply, candidates []lb.Candidate) {
	led.seq++
	l.state, l.confirmedSeq, l.reservation, l.waiter = held, led.seq, nil, nil
	l.grant, l.tokens, l.addr = reply.grant, reply.tokens, candidates[reply.code].Addr
}

// sendAmend sends the lease's present address and tokens. If the command fails, the next heartbeat asserts the lease.
func (led *ledger) sendAmend(now time.Duration, id lb.LeaseID, l *lease) {
	l.unsynced = true
	b := scriptAmend.command(nil, 3, 5)
	b = appendArg(b, led.keys.Table)
	b = appendArg(b, led.keys.Rows)
	b = appendArg(b, led.keys.Leases)
	b = appendInt(b, dataTTL.Milliseconds())
	b = appendID(b, id)
	b = appendInt(b, l.tokens)
	b = appendInt(b, int64(l.version))
	b = appendArg(b, l.addr)
	version := l.version
	led.sendBackground(now, scriptAmend, b, func(now time.Duration, v Value, err error) {
		v, grants := splitGrants(v, 1)
		if err == nil && v.Int == 1 && l.version == version {
			l.unsynced = false
		}
		led.passOn(now, grants)
	})
}

// releaseCommand returns the command that releases the leases. granted reports that the answers to their reservations
// were received; otherwise a reservation may run after this command, and a tombstone is left for it. The turn is that
// of a single lease.
func (led *ledger) releaseCommand(granted bool, t turn, ids ...lb.LeaseID) []byte {
	args := 2 + len(ids)
	if t.corrected != 0 {
		args++
	}
	b := scriptRelease.command(make([]byte, 0, 256), 2, args)
	b = appendArg(b, led.keys.Table)
	b = appendArg(b, led.keys.Leases)
	if granted {
		b = appendInt(b, 1)
	} else {
		b = appendInt(b, 0)
	}
	b = appendInt(b, 2*dataTTL.Milliseconds())
	for _, id := range ids {
		b = appendID(b, id)
	}
	if t.corrected != 0 {
		b = t.append(b)
	}
	return b
}

// sendRelease sends a command that releases the leases. If it fails, the next heartbeat finds the leases and releases
// them.
func (led *ledger) sendRelease(now time.Duration, sp *script, cmd []byte, ids ...lb.LeaseID) {
	led.sendBackground(now, sp, cmd, func(now time.Duration, v Value, err error) {
		v, grants := splitGrants(v, 1)
		if err != nil || v.Int == int64(len(ids)) { // no tombstone was left: what a heartbeat finds later is a lease
			for _, id := range ids {
				delete(led.tombstones, id)
			}
		}
		if (sp == scriptRefund || sp == scriptRefundTenant) && err == nil {
			delete(led.unrefunded, ids[0])
		}
		led.passOn(now, grants)
	})
}

// markUnsynced marks for assertion every lease that Redis may have had at the given seq, since it has lost some of
// them by now. A lease that is still there may come from a late reservation that chose another endpoint, so it is
// marked too.
func (led *ledger) markUnsynced(seq uint64) {
	for _, l := range led.leases {
		if l.state == held && l.confirmedSeq < seq {
			l.version++
			l.unsynced = true
		}
	}
}

// assertAll begins to assert every lease that Redis may have lost by the given seq.
func (led *ledger) assertAll(now time.Duration, seq uint64) {
	led.toAssert = led.toAssert[:0]
	for id, l := range led.leases {
		if l.state == held && l.confirmedSeq < seq {
			led.toAssert = append(led.toAssert, id)
		}
	}
	led.assertNext(now)
}

// assertNext asserts the next leases of toAssert. There is one such command at a time: no request has to wait behind
// all of them but those that waited before, to be reserved again. After a failure the next heartbeat asserts the rest.
func (led *ledger) assertNext(now time.Duration) {
	if led.asserting {
		return
	}
	var ids []lb.LeaseID
	for len(led.toAssert) > 0 && len(ids) < leasesPerCommand {
		id := led.toAssert[0]
		led.toAssert = led.toAssert[1:]
		if l, ok := led.leases[id]; ok && l.state == held {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return
	}
	led.asserting = true
	led.sendAssert(now, ids, func(now time.Duration, err error) {
		if led.asserting = false; err != nil {
			led.toAssert = led.toAssert[:0]
		}
		led.assertNext(now)
		led.asserted(now)
	})
}

// sendAssert has Redis count the leases as they are. If the command fails, the next heartbeat asserts them again.
func (led *ledger) sendAssert(now time.Duration, ids []lb.LeaseID, done func(time.Duration, error)) {
	b := led.assertCommand(ids)
	led.seq++
	sent := make(map[*lease]uint8, len(ids)) // the versions that were sent
	for _, id := range ids {
		l := led.leases[id]
		l.confirmedSeq, l.unsynced = led.seq, true
		sent[l] = l.version
	}
	led.sendBackground(now, scriptAssert, b, func(now time.Duration, _ Value, err error) {
		for l, version := range sent {
			if err == nil && l.version == version {
				l.unsynced = false
			}
		}
		done(now, err)
	})
}

// assertCommand returns the command that asserts the leases as they are.
func (led *ledger) assertCommand(ids []lb.LeaseID) []byte {
	b := scriptAssert.command(nil, 4, 2+4*len(ids))
	for _, key := range []string{led.keys.Table, led.keys.Rows, led.keys.Owners, led.keys.Leases} {
		b = appendArg(b, key)
	}
	b = appendArg(b, led.owner.name)
	b = appendInt(b, dataTTL.Milliseconds())
	for _, id := range ids {
		l := led.leases[id]
		b = appendID(b, id)
		b = appendInt(b, l.tokens)
		b = appendInt(b, int64(l.version))
		b = appendArg(b, l.addr)
	}
	return b
}
