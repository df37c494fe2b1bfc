package redisclient

import (
	"encoding/binary"
	"iter"
	"time"

	"github.com/warmgate/warmgate/lb"
)

const (
	// scopeAge is how long a scope without leases is beaten for.
	scopeAge = time.Minute
	// batch is how many leases one command asserts or releases.
	batch = 50
	// maxSteps is how many commands a heartbeat takes at most, and maxCursor how long a cursor is, in bytes.
	maxSteps, maxCursor = 1024, 20
)

// Heartbeat implements [lb.Store]: once for each scope in use. Its answers come later; see [Store.Err] for how the last went.
// It always tries, also while the breaker is open, and its success closes that.
func (s *Store) Heartbeat(now time.Duration) error {
	for id, forget := range s.early {
		if now >= forget {
			delete(s.early, id)
		}
	}
	for name, sc := range s.scopes {
		for id, until := range sc.tombs {
			if now >= until {
				delete(sc.tombs, id)
			}
		}
		if len(sc.leases) == 0 && now-sc.used > scopeAge {
			delete(s.scopes, name)
			continue
		}
		s.beat(now, sc)
	}
	if len(s.scopes) == 0 && s.client.breaker.open {
		s.client.send(now, nil, nil, AppendCommand(nil, "PING"), true, func(_ time.Duration, _ Value, err error) { s.down = err })
	}
	return nil
}

// round is a heartbeat under way: commands one after the other, each of which does a part of the work, so that others
// get their turn at Redis between them.
type round struct {
	sent   uint64 // when it began
	steps  int
	cursor []byte // where the next command goes on
	there  map[lb.LeaseID]bool
	found  int // entries
}

// beat begins a round, unless one is under way.
func (s *Store) beat(now time.Duration, sc *scope) {
	if sc.round != nil {
		return
	}
	s.seq++
	sc.round = &round{sent: s.seq, cursor: []byte("0"), there: map[lb.LeaseID]bool{}}
	s.step(now, sc)
}

// step sends one command of the round.
func (s *Store) step(now time.Duration, sc *scope) {
	var views []*view
	for _, v := range sc.views {
		if v.used {
			views = append(views, v)
			v.used = false
		}
	}
	b := scriptBeat.command(nil, 5+len(views), 6)
	for _, key := range []string{sc.keys.Table, sc.keys.Rows, sc.keys.Owners, sc.keys.Own, sc.keys.Turn} {
		b = appendArg(b, key)
	}
	for _, v := range views {
		b = appendArg(b, v.key)
	}
	b = appendArg(b, s.owner)
	b = appendInt(b, s.ttl.Milliseconds())
	b = appendInt(b, keep.Milliseconds())
	b = appendInt(b, viewTTL.Milliseconds())
	b = appendArg(b, sc.others)
	b = appendArg(b, sc.round.cursor)
	s.seq++
	sent := s.seq
	s.client.send(now, scriptBeat, &sc.home, b, true, func(now2 time.Duration, v Value, err error) {
		more := false
		if err == nil {
			more, err = s.beaten(now2, sc, v, sent)
		}
		if s.down = err; err != nil {
			sc.round = nil
			return
		}
		for _, v := range views {
			if v.known >= 0 {
				v.known = max(v.known, now)
			}
		}
		if more {
			s.step(now2, sc)
		}
	})
}

// beaten compares a part of the owner's leases in Redis, as a command sent at the given time found them, with the
// books: what is there and should not be is released. It says whether the round goes on; at its end, what should be
// there and is not, is asserted.
func (s *Store) beaten(now time.Duration, sc *scope, v Value, sent uint64) (more bool, _ error) {
	if v.Kind != Array || len(v.Items) != 6 || v.Items[0].Kind != Integer || v.Items[1].Kind != Integer ||
		len(v.Items[3].Str) > maxCursor || len(v.Items[4].Str)%8 != 0 || len(v.Items[5].Str)%8 != 0 {
		return false, ErrGarbage
	}
	sc.alive = int(v.Items[1].Int)
	if since := string(v.Items[2].Str); since != sc.since {
		sc.since = since
		sc.anew(sent)
	}
	r := sc.round
	r.steps++
	r.cursor = append(r.cursor[:0], v.Items[3].Str...)
	r.found += len(v.Items[4].Str) + len(v.Items[5].Str)
	var over []lb.LeaseID
	for id := range idsIn(v.Items[4].Str) {
		r.there[id] = true
		if _, ok := sc.leases[id]; !ok {
			over = append(over, id)
		}
	}
	for id := range idsIn(v.Items[5].Str) {
		if _, ok := sc.leases[id]; !ok && now >= sc.tombs[id] {
			over = append(over, id)
		}
	}
	for ; len(over) > 0; over = over[min(batch, len(over)):] {
		s.drop(now, sc, true, over[:min(batch, len(over))]...)
	}
	if v.Items[0].Int == 0 {
		s.compared(now, sc, sent)
		return false, nil
	}
	if r.steps == maxSteps {
		sc.round = nil // the next heartbeat goes on
	}
	return sc.round != nil, nil
}

// anew makes sure that all leases that Redis may have had before the given time are asserted: since then it has lost
// some. Of those that it has, some may be the work of a late reservation, which may have chosen another endpoint.
func (sc *scope) anew(sent uint64) {
	for _, l := range sc.leases {
		if l.state == held && l.seq < sent {
			l.version++
			l.stale = true
		}
	}
}

// compared ends a round, the last command of which was sent at the given time.
func (s *Store) compared(now time.Duration, sc *scope, sent uint64) {
	r := sc.round
	sc.round = nil
	sc.settled = r.found+len(sc.leases) == 0
	sc.wrong = sc.wrong[:0]
	for id, l := range sc.leases {
		if l.state == held && (l.stale && l.seq < sent || l.seq < r.sent && !r.there[id]) {
			sc.wrong = append(sc.wrong, id)
		}
	}
	s.write(now, sc)
}

// write asserts the leases that are wrong in Redis, one command after the other: requests wait for none of them, and those
// that do wait shall not wait behind all of them.
func (s *Store) write(now time.Duration, sc *scope) {
	if sc.writing {
		return
	}
	var ids []lb.LeaseID
	for len(sc.wrong) > 0 && len(ids) < batch {
		id := sc.wrong[0]
		sc.wrong = sc.wrong[1:]
		if l, ok := sc.leases[id]; ok && l.state == held {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return
	}
	sc.writing = true
	s.assert(now, sc, ids, func(now time.Duration, err error) {
		if sc.writing = false; err == nil {
			s.write(now, sc)
		}
	})
}

// idsIn returns the ids that beat.lua has strung together.
func idsIn(b []byte) iter.Seq[lb.LeaseID] {
	return func(yield func(lb.LeaseID) bool) {
		for ; len(b) > 0 && yield(lb.LeaseID(binary.LittleEndian.Uint64(b))); b = b[8:] {
		}
	}
}

// assert sees to it that Redis counts the leases. If it does not get through, the next beat finds them missing again.
func (s *Store) assert(now time.Duration, sc *scope, ids []lb.LeaseID, done func(time.Duration, error)) {
	b := scriptAssert.command(nil, 4, 2+4*len(ids))
	for _, key := range []string{sc.keys.Table, sc.keys.Rows, sc.keys.Owners, sc.keys.Own} {
		b = appendArg(b, key)
	}
	b = appendArg(b, s.owner)
	b = appendInt(b, keep.Milliseconds())
	s.seq++
	sent := make(map[*lease]uint8, len(ids))
	for _, id := range ids {
		l := sc.leases[id]
		l.seq, l.stale = s.seq, true
		sent[l] = l.version
		b = appendID(b, id)
		b = appendInt(b, l.tokens)
		b = appendInt(b, int64(l.version))
		b = appendArg(b, l.addr)
	}
	s.background(now, scriptAssert, sc, b, func(now time.Duration, _ Value, err error) {
		for l, version := range sent {
			if err == nil && l.version == version {
				l.stale = false
			}
		}
		done(now, err)
	})
}
