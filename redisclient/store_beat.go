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
	// partSize is how many leases one beat compares. An owner with more compares a part at each beat.
	partSize = 5000
	// batch is how many leases one command asserts or releases.
	batch = 100
)

// Beat implements [lb.Store]: once for each scope in use. Its answers come later; see [Store.Err] for how the last went.
// It always tries, also while the breaker is open, and its success closes that.
func (s *Store) Beat(now time.Duration) error {
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

func (s *Store) beat(now time.Duration, sc *scope) {
	parts := len(sc.leases)/partSize + 1
	part := sc.beats % parts
	sc.beats++
	var views []*view
	for _, v := range sc.views {
		if v.used {
			views = append(views, v)
			v.used = false
		}
	}
	b := scriptBeat.command(nil, 4+len(views), 7)
	for _, key := range []string{sc.keys.Table, sc.keys.Rows, sc.keys.Owners, sc.keys.Own} {
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
	b = appendInt(b, int64(part))
	b = appendInt(b, int64(parts))
	s.seq++
	sent := s.seq
	s.client.send(now, scriptBeat, &sc.home, b, true, func(now2 time.Duration, v Value, err error) {
		if s.down = err; err != nil {
			return
		}
		if s.down = s.beaten(now2, sc, v, sent, part, parts); s.down != nil {
			return
		}
		for _, v := range views {
			if v.known >= 0 {
				v.known = max(v.known, now)
			}
		}
	})
}

// beaten compares the owner's leases in Redis, as a beat sent at the given time found them, with the books: what is there
// and should not be is released, what should be and is not is asserted.
func (s *Store) beaten(now time.Duration, sc *scope, v Value, sent uint64, part, parts int) error {
	if v.Kind != Array || len(v.Items) != 5 || v.Items[1].Kind != Integer || len(v.Items[3].Str)%8 != 0 ||
		len(v.Items[4].Str)%8 != 0 {
		return ErrGarbage
	}
	sc.alive = int(v.Items[1].Int)
	sc.settled = len(v.Items[3].Str)+len(v.Items[4].Str)+len(sc.leases) == 0 && parts == 1
	since := string(v.Items[2].Str)
	anew := since != sc.since
	sc.since = since
	there := map[lb.LeaseID]bool{}
	var over []lb.LeaseID
	for id := range idsIn(v.Items[3].Str) {
		there[id] = true
		if _, ok := sc.leases[id]; !ok {
			over = append(over, id)
		}
	}
	for id := range idsIn(v.Items[4].Str) {
		if _, ok := sc.leases[id]; !ok && now >= sc.tombs[id] {
			over = append(over, id)
		}
	}
	for ; len(over) > 0; over = over[min(batch, len(over)):] {
		s.drop(now, sc, true, over[:min(batch, len(over))]...)
	}
	sc.wrong = sc.wrong[:0]
	for id, l := range sc.leases {
		if l.state != held || l.seq >= sent {
			continue
		}
		if anew { // what is there may be the work of a late reservation, which may have chosen another endpoint
			l.version++
		}
		if anew || l.stale || int(id&0xffff)%parts == part && !there[id] {
			sc.wrong = append(sc.wrong, id)
		}
	}
	s.write(now, sc)
	return nil
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
