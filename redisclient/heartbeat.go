package redisclient

import (
	"iter"
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
)

const (
	// idleScopeTTL is how long heartbeats of a scope continue after its last lease.
	idleScopeTTL = time.Minute
	// leasesPerCommand is how many leases one command asserts or releases.
	leasesPerCommand = 50
	// maxSteps is how many commands a heartbeat may take, and maxCursor how many bytes a cursor may have.
	maxSteps, maxCursor = 1024, 20
)

// Heartbeat implements [lb.Store]: it begins one heartbeat for each scope in use. The answers arrive later;
// HeartbeatErr returns how the last one went. Heartbeats are sent also while the breaker is open, and a successful one
// closes it.
func (s *Store) Heartbeat(now time.Duration) error {
	deleteExpired(s.releasedEarly, now)
	for name, sc := range s.scopes {
		deleteExpired(sc.tombstones, now)
		for id, r := range sc.unrefunded {
			if now-r.sentAt > 10*tombstoneTTL { // no heartbeat has finished since
				delete(sc.unrefunded, id)
			}
		}
		if len(sc.leases) == 0 && now-sc.lastUsed > idleScopeTTL {
			delete(s.scopes, name)
			continue
		}
		s.startHeartbeat(now, sc)
	}
	if len(s.scopes) == 0 && s.client.breaker.open {
		s.client.send(now, nil, nil, AppendCommand(nil, "PING"), true, func(_ time.Duration, _ Value, err error) {
			s.heartbeatEnded(err)
		})
	}
	return nil
}

// deleteExpired deletes the entries whose time has come.
func deleteExpired(m map[lb.LeaseID]time.Duration, now time.Duration) {
	for id, until := range m {
		if now >= until {
			delete(m, id)
		}
	}
}

// heartbeat is a heartbeat in progress. It is a sequence of commands, each of which does a part of the work, so that
// Redis can run other commands in between.
type heartbeat struct {
	startSeq uint64 // when it began, by Store.seq
	steps    int    // commands that were answered
	cursor   []byte // where the next command continues
	found    map[lb.LeaseID]bool
	entries  int // leases and tombstones that were found
}

// startHeartbeat begins a heartbeat, unless one is in progress.
func (s *Store) startHeartbeat(now time.Duration, sc *scopeState) {
	if sc.heartbeat != nil {
		return
	}
	s.seq++
	sc.heartbeat = &heartbeat{startSeq: s.seq, cursor: []byte("0"), found: map[lb.LeaseID]bool{}}
	s.sendHeartbeat(now, sc)
}

// sendHeartbeat sends one command of the heartbeat. The lists of candidates that were used since the last one are
// renewed by it.
func (s *Store) sendHeartbeat(now time.Duration, sc *scopeState) {
	lists := sc.takeUsedLists()
	b := s.heartbeatCommand(sc, lists)
	s.seq++
	sent := s.seq
	s.client.send(now, scriptHeartbeat, &sc.node, b, true, func(answered time.Duration, v Value, err error) {
		more := false
		v, grants := splitGrants(v, 8)
		defer s.passOn(answered, sc, grants)
		if err == nil {
			more, err = s.handleHeartbeat(answered, sc, v, sent)
		}
		if s.heartbeatEnded(err); err != nil {
			sc.heartbeat = nil
			return
		}
		for _, l := range lists {
			if l.knownAt >= 0 {
				l.knownAt = max(l.knownAt, now)
			}
		}
		if more {
			s.sendHeartbeat(answered, sc)
		}
	})
}

// heartbeatEnded notes how a heartbeat went.
//
//go:noinline
func (s *Store) heartbeatEnded(err error) {
	if s.heartbeatErr = err; err != nil {
		s.OnFailure(err)
	}
}

// heartbeatCommand returns the next command of the heartbeat, which renews the lists.
func (s *Store) heartbeatCommand(sc *scopeState, lists []*candidateList) []byte {
	b := scriptHeartbeat.command(nil, 5+len(lists), 6)
	for _, key := range []string{sc.keys.Table, sc.keys.Rows, sc.keys.Owners, sc.keys.Leases, sc.keys.Turn} {
		b = appendArg(b, key)
	}
	for _, l := range lists {
		b = appendArg(b, l.key)
	}
	b = appendArg(b, s.owner)
	b = appendInt(b, s.ttl.Milliseconds())
	b = appendInt(b, dataTTL.Milliseconds())
	b = appendInt(b, listTTL.Milliseconds())
	b = appendArg(b, sc.leasesPrefix)
	return appendArg(b, sc.heartbeat.cursor)
}

// handleHeartbeat compares a part of the owner's entries in Redis, as a command sent at the given seq found them, with
// its leases, and releases in Redis what it does not hold. It reports whether the heartbeat needs another command.
// After the last one, the leases that Redis does not have are asserted.
func (s *Store) handleHeartbeat(now time.Duration, sc *scopeState, v Value, sent uint64) (more bool, _ error) {
	if !isHeartbeatReply(v) {
		return false, ErrGarbage
	}
	goesOn, owners, heldSince, cursor := v.Items[0].Int != 0, v.Items[1].Int, string(v.Items[2].Str), v.Items[3].Str
	leases, tombstones := v.Items[4].Str, v.Items[5].Str
	tickets := v.Items[6].Str
	sc.queue = append(sc.queue[:0], v.Items[7].Str...)
	sc.owners = int(owners)
	if heldSince != sc.heldSince {
		isFirst := sc.heldSince == ""
		sc.heldSince = heldSince
		if sc.markUnsynced(sent); !isFirst {
			s.sendAllAgain(now, sc, sent)
		}
	}
	h := sc.heartbeat
	h.steps++
	h.cursor = append(h.cursor[:0], cursor...)
	h.entries += len(leases) + len(tombstones) + len(tickets)
	s.releaseUnknown(now, sc, leases, tombstones, tickets)
	if !goesOn {
		s.finishHeartbeat(now, sc, sent)
		return false, nil
	}
	if h.steps == maxSteps {
		sc.heartbeat = nil // the next one begins again
	}
	return sc.heartbeat != nil, nil
}

// isHeartbeatReply reports whether heartbeat.lua can have returned the value.
func isHeartbeatReply(v Value) bool {
	return v.Kind == Array && len(v.Items) == 8 && v.Items[0].Kind == Integer && v.Items[1].Kind == Integer &&
		len(v.Items[3].Str) <= maxCursor && len(v.Items[4].Str)%8 == 0 && len(v.Items[5].Str)%8 == 0 &&
		len(v.Items[6].Str)%8 == 0
}

// releaseUnknown releases those of the entries in Redis that the owner does not hold. Tombstones that may still be
// needed are kept.
func (s *Store) releaseUnknown(now time.Duration, sc *scopeState, leases, tombstones, tickets []byte) {
	var unknown []lb.LeaseID
	giveUp := func(id lb.LeaseID) {
		if r := sc.unrefunded[id]; r != nil {
			s.cancel(now, r)
		} else {
			unknown = append(unknown, id)
		}
	}
	for id := range leaseIDs(leases) {
		l, ok := sc.leases[id]
		sc.heartbeat.found[id] = !ok || l.state != waiting // else it was granted, and the owner has not noticed
		if !ok {
			giveUp(id)
		}
	}
	for id := range leaseIDs(tickets) {
		l, ok := sc.leases[id]
		sc.heartbeat.found[id] = ok && l.state == waiting
		if !ok { // it may be granted, and charged, before the command
			giveUp(id)
		}
	}
	for id := range leaseIDs(tombstones) {
		if _, ok := sc.leases[id]; !ok && now >= sc.tombstones[id] {
			unknown = append(unknown, id)
		}
	}
	for ; len(unknown) > 0; unknown = unknown[min(leasesPerCommand, len(unknown)):] {
		ids := unknown[:min(leasesPerCommand, len(unknown))]
		s.sendRelease(now, sc, scriptRelease, sc.releaseCommand(true, turn{}, ids...), ids...)
	}
}

// markUnsynced marks for assertion every lease that Redis may have had at the given seq, since it has lost some of
// them by now. A lease that is still there may come from a late reservation that chose another endpoint, so it is
// marked too.
func (sc *scopeState) markUnsynced(seq uint64) {
	for _, l := range sc.leases {
		if l.state == held && l.confirmedSeq < seq {
			l.version++
			l.unsynced = true
		}
	}
}

// finishHeartbeat ends a heartbeat whose last command was sent at the given seq, and begins to assert the leases that
// Redis does not have, or not as they are.
func (s *Store) finishHeartbeat(now time.Duration, sc *scopeState, sent uint64) {
	h := sc.heartbeat
	sc.heartbeat = nil
	sc.drained = h.entries+len(sc.leases) == 0
	for id, r := range sc.unrefunded {
		if !h.found[id] && now-r.sentAt > tombstoneTTL { // Redis has nothing of it, nor will it
			delete(sc.unrefunded, id)
		}
	}
	sc.toSend = append(sc.toSend, sc.waitersInOrder(func(w *waiter) bool {
		return w.lease.confirmedSeq < h.startSeq && !h.found[w.id] && w.again == nil
	})...)
	sc.toAssert = sc.toAssert[:0]
	for id, l := range sc.leases {
		if l.state == held &&
			(l.unsynced && l.confirmedSeq < sent || l.confirmedSeq < h.startSeq && !h.found[id]) {
			sc.toAssert = append(sc.toAssert, id)
		}
	}
	s.assertNext(now, sc)
	s.sendNext(now, sc)
}

// assertAll begins to assert every lease that Redis may have lost by the given seq.
func (s *Store) assertAll(now time.Duration, sc *scopeState, seq uint64) {
	sc.toAssert = sc.toAssert[:0]
	for id, l := range sc.leases {
		if l.state == held && l.confirmedSeq < seq {
			sc.toAssert = append(sc.toAssert, id)
		}
	}
	s.assertNext(now, sc)
}

// assertNext asserts the next leases of toAssert. There is one such command at a time: no request has to wait behind
// all of them but those that waited before, in toSend. After a failure the next heartbeat asserts the rest.
func (s *Store) assertNext(now time.Duration, sc *scopeState) {
	if sc.asserting {
		return
	}
	var ids []lb.LeaseID
	for len(sc.toAssert) > 0 && len(ids) < leasesPerCommand {
		id := sc.toAssert[0]
		sc.toAssert = sc.toAssert[1:]
		if l, ok := sc.leases[id]; ok && l.state == held {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return
	}
	sc.asserting = true
	s.sendAssert(now, sc, ids, func(now time.Duration, err error) {
		if sc.asserting = false; err != nil {
			sc.toAssert = sc.toAssert[:0]
		}
		s.assertNext(now, sc)
		s.sendNext(now, sc)
	})
}

// leaseIDs returns the ids that heartbeat.lua has concatenated, 8 bytes each.
func leaseIDs(b []byte) iter.Seq[lb.LeaseID] {
	return func(yield func(lb.LeaseID) bool) {
		for r := wire.NewReader(b); r.Len() > 0 && yield(lb.LeaseID(r.Uint64())); {
		}
	}
}

// sendAssert has Redis count the leases as they are. If the command fails, the next heartbeat asserts them again.
func (s *Store) sendAssert(now time.Duration, sc *scopeState, ids []lb.LeaseID, done func(time.Duration, error)) {
	b := s.assertCommand(sc, ids)
	s.seq++
	sent := make(map[*lease]uint8, len(ids)) // the versions that were sent
	for _, id := range ids {
		l := sc.leases[id]
		l.confirmedSeq, l.unsynced = s.seq, true
		sent[l] = l.version
	}
	s.sendBackground(now, scriptAssert, sc, b, func(now time.Duration, _ Value, err error) {
		for l, version := range sent {
			if err == nil && l.version == version {
				l.unsynced = false
			}
		}
		done(now, err)
	})
}

// assertCommand returns the command that asserts the leases as they are.
func (s *Store) assertCommand(sc *scopeState, ids []lb.LeaseID) []byte {
	b := scriptAssert.command(nil, 4, 2+4*len(ids))
	for _, key := range []string{sc.keys.Table, sc.keys.Rows, sc.keys.Owners, sc.keys.Leases} {
		b = appendArg(b, key)
	}
	b = appendArg(b, s.owner)
	b = appendInt(b, dataTTL.Milliseconds())
	for _, id := range ids {
		l := sc.leases[id]
		b = appendID(b, id)
		b = appendInt(b, l.tokens)
		b = appendInt(b, int64(l.version))
		b = appendArg(b, l.addr)
	}
	return b
}
