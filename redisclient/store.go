package redisclient

import (
	"cmp"
	"encoding/binary"
	"strconv"
	"time"

	"github.com/warmgate/warmgate/lb"
)

const (
	// keep is how long a scope's data outlive the last beat of any owner.
	keep = time.Minute
	// tombstoneAge is how long a release waits in Redis for a reservation that may still come.
	tombstoneAge = 30 * time.Second
	// maxCandidates of one plan: for how many a table has rows.
	maxCandidates = 65000
	// maxTokens of one lease: what an entry has room for.
	maxTokens = 1<<32 - 1
)

// Options are the settings of a store.
type Options struct {
	Owner   uint64        // unique among all owners of all gateways
	TTL     time.Duration // after which a silent owner's leases are returned
	Timeout time.Duration // for each step: a command without an answer by then has failed
	KV      lb.KV         // the gateway's shared memory, over which its workers agree on who loads a script
	Scope   string        // what takes the place of the scopes of all plans; "" to leave them
}

// Store is the store of one owner in Redis: see the package's documentation. It implements [lb.RemoteStore].
type Store struct {
	client *client
	owner  string
	ttl    time.Duration
	chosen string // Options.Scope
	scopes map[string]*scope
	leases map[lb.LeaseID]*lease
	early  map[lb.LeaseID]time.Duration // releases before their reservation, and when to forget them
	seq    uint64                       // counts what was sent and learned, to tell before from after
	down   error
}

var _ lb.RemoteStore = (*Store)(nil)

// scope is what this owner knows of one scope.
type scope struct {
	name    string
	keys    Keys // Own is this owner's
	home    home
	others  string
	views   []*view
	leases  map[lb.LeaseID]*lease
	tombs   map[lb.LeaseID]time.Duration // released without having seen the grant, and until when to expect it
	used    time.Duration
	alive   int           // owners, by the last beat
	round   *round        // the heartbeat under way
	tidying bool          // rows are being taken back
	settled bool          // the last beat found nothing, and nothing was sent since
	since   string        // the present life of this owner's leases in Redis, by the last beat
	pages   int           // how many pages of prompts the latest reservation named
	expire  time.Duration // when they expire at the earliest, as far as this owner set it
	// wrong are leases that Redis does not count as they are; writing says that some of them are on their way.
	wrong   []lb.LeaseID
	writing bool
}

type state uint8

const (
	asked    state = iota // the reservation is on its way
	held                  // granted
	released              // given back before the reservation was answered
)

type lease struct {
	scope  *scope
	state  state
	addr   string
	tokens int64
	// version counts the changes, so that Redis knows a late one from the latest.
	version uint8
	grant   lb.Grant
	seq     uint64 // when it became certain that Redis has it
	stale   bool   // Redis may not know it as it is
}

// New returns a store over the transport.
func New(t Transport, o Options) *Store {
	return &Store{
		client: newClient(t, o.Timeout, o.KV), owner: strconv.FormatUint(o.Owner, 16), ttl: o.TTL,
		chosen: o.Scope,
		scopes: map[string]*scope{}, leases: map[lb.LeaseID]*lease{}, early: map[lb.LeaseID]time.Duration{},
	}
}

// Ready says whether a reservation may be tried: the breaker is closed.
func (s *Store) Ready(time.Duration) bool { return !s.client.breaker.open }

// Expire fails what has got no answer in time. It returns the earliest deadline that is still to come, 0 for none.
func (s *Store) Expire(now time.Duration) time.Duration { return s.client.expire(now) }

// Postpone moves all deadlines, each once. It is for a caller that was held up: for so long it could not have seen an
// answer, and that is not held against Redis.
func (s *Store) Postpone(d time.Duration) { s.client.postpone(d) }

// Err returns why the last beat failed, nil when it did not.
func (s *Store) Err() error { return s.down }

// Settled says whether Redis has nothing of this owner's any more, as far as the last beats told. Until then a store
// that is no longer needed should go on beating: what Redis did not hear of while it was away would stay there until
// the TTL is over.
func (s *Store) Settled() bool {
	for _, sc := range s.scopes {
		if !sc.settled {
			return false
		}
	}
	return true
}

// Owners returns how many owners counted at the last beat, over all gateways.
func (s *Store) Owners() int {
	n := 0
	for _, sc := range s.scopes {
		n = max(n, sc.alive)
	}
	return n
}

// Reserve implements [lb.Store].
func (s *Store) Reserve(now time.Duration, id lb.LeaseID, p *lb.Plan, done func(lb.Grant, error)) {
	if l, ok := s.leases[id]; ok && l.state == held {
		done(l.grant, nil)
		return
	}
	if _, ok := s.early[id]; ok {
		delete(s.early, id)
		done(lb.Grant{}, lb.ErrReleased)
		return
	}
	switch {
	case len(p.Candidates) == 0:
		done(lb.Grant{}, lb.ErrFull)
		return
	case len(p.Candidates) > maxCandidates:
		done(lb.Grant{}, lb.ErrNoRoom)
		return
	case s.client.breaker.open:
		done(lb.Grant{}, ErrOpen)
		return
	}
	r := &reservation{id: id, candidates: p.Candidates, done: done}
	r.lease = s.keep(now, id, p.Scope, &lease{state: asked, tokens: clamp(p.Tokens)})
	r.script, r.cmd = s.reservationOf(now, r.lease.scope, r.lease.scope.view(p.Candidates, s.owner), id, p)
	s.ask(now, r)
}

// reservation is a request for a lease on its way.
type reservation struct {
	id         lb.LeaseID
	lease      *lease
	candidates []lb.Candidate
	script     *script
	cmd        []byte // what it asks, made at once: the plan's blocks are the caller's
	view       *view
	sent       uint64
	first      *call // as it was asked first; a second time has no more time
	second     bool
	done       func(lb.Grant, error)
}

// ask sends the reservation, behind its list of candidates if Redis may not know that.
func (s *Store) ask(now time.Duration, r *reservation) {
	sc := r.lease.scope
	r.view = sc.view(r.candidates, s.owner)
	r.view.used = true
	if !r.view.fresh(now) {
		s.open(now, sc, r.view)
	}
	s.seq++
	r.sent = s.seq
	k := s.client.send(now, r.script, &sc.home, r.cmd, false, func(now time.Duration, v Value, err error) {
		s.answered(now, r, v, err)
	})
	if r.first != nil && k != nil {
		k.until, k.late = r.first.until, r.first.late
	} else if r.first == nil {
		r.first = k
	}
}

// answered takes the answer to a reservation.
func (s *Store) answered(now time.Duration, r *reservation, v Value, err error) {
	l := r.lease
	if l.state == released {
		r.done(lb.Grant{}, lb.ErrReleased)
		return
	}
	a, err := answerOf(v, r, err)
	switch code := a.code; {
	case err != nil:
	case code >= 0:
		s.seq++
		l.state, l.seq = held, s.seq
		l.grant, l.tokens, l.addr = a.grant, a.tokens, r.candidates[code].Addr
		r.done(a.grant, nil)
		return
	case code == answerFull:
		err = lb.ErrFull
	case code == answerReleased:
		err = lb.ErrReleased
	case r.second && r.view.refused != nil:
		err = r.view.refused
	case r.second:
		err = ErrUnopened
	default:
		if r.view.opened <= r.sent { // it was not sent anew meanwhile
			l.scope.forget()
		}
		r.second = true
		s.ask(now, r)
		return
	}
	l.scope.expire = 0 // it may not have been put forward
	s.lose(r.id)
	if uncertain(err) {
		s.drop(now, l.scope, false, r.id)
	}
	r.done(lb.Grant{}, err)
}

// Adopt implements [lb.RemoteStore].
func (s *Store) Adopt(now time.Duration, id lb.LeaseID, scope, addr string, tokens int64) {
	l := s.keep(now, id, scope, &lease{state: held, addr: addr, tokens: clamp(tokens)})
	s.assert(now, l.scope, []lb.LeaseID{id}, func(time.Duration, error) {})
}

// Amend implements [lb.Store].
func (s *Store) Amend(now time.Duration, id lb.LeaseID, addr string, tokens int64) {
	l, ok := s.leases[id]
	if !ok || l.state != held {
		return
	}
	if addr != "" {
		l.addr = addr
	}
	l.tokens = clamp(tokens)
	l.version++
	s.correct(now, id, l)
}

// correct writes what the lease is now.
func (s *Store) correct(now time.Duration, id lb.LeaseID, l *lease) {
	l.stale = true
	b := scriptAmend.command(nil, 3, 5)
	b = appendArg(b, l.scope.keys.Table)
	b = appendArg(b, l.scope.keys.Rows)
	b = appendArg(b, l.scope.keys.Own)
	b = appendInt(b, keep.Milliseconds())
	b = appendID(b, id)
	b = appendInt(b, l.tokens)
	b = appendInt(b, int64(l.version))
	b = appendArg(b, l.addr)
	version := l.version
	s.background(now, scriptAmend, l.scope, b, func(_ time.Duration, v Value, err error) {
		if err == nil && v.Int == 1 && l.version == version {
			l.stale = false
		}
	})
}

// Release implements [lb.Store].
func (s *Store) Release(now time.Duration, id lb.LeaseID) {
	l, ok := s.leases[id]
	if !ok {
		s.early[id] = now + s.ttl
		return
	}
	s.lose(id)
	seen := l.state == held
	l.state = released
	s.drop(now, l.scope, seen, id)
}

// drop tells Redis that the leases are over. known says that their grants were seen, so that nothing comes after. What
// does not get through is found by the next beat.
func (s *Store) drop(now time.Duration, sc *scope, known bool, ids ...lb.LeaseID) {
	b := scriptRelease.command(make([]byte, 0, 256), 2, 2+len(ids))
	b = appendArg(b, sc.keys.Table)
	b = appendArg(b, sc.keys.Own)
	if known {
		b = appendInt(b, 1)
	} else {
		b = appendInt(b, 0)
	}
	b = appendInt(b, 2*keep.Milliseconds())
	for _, id := range ids {
		b = appendID(b, id)
		if !known {
			sc.tombs[id] = now + tombstoneAge
		}
	}
	s.background(now, scriptRelease, sc, b, func(_ time.Duration, v Value, err error) {
		if err != nil || v.Int == int64(len(ids)) { // no tombstone was left there: what is found there later is a lease
			for _, id := range ids {
				delete(sc.tombs, id)
			}
		}
	})
}

// background sends what no request waits for, unless the breaker is open.
func (s *Store) background(now time.Duration, sp *script, sc *scope, cmd []byte, done func(time.Duration, Value, error)) {
	s.seq++
	s.client.send(now, sp, &sc.home, cmd, false, done)
}

// keep enters a lease into the books.
func (s *Store) keep(now time.Duration, id lb.LeaseID, name string, l *lease) *lease {
	sc := s.scope(name)
	sc.used, sc.settled = now, false
	l.scope = sc
	s.leases[id], sc.leases[id] = l, l
	return l
}

// scope returns what is known of the scope of a plan.
func (s *Store) scope(name string) *scope {
	name = cmp.Or(s.chosen, name)
	sc, ok := s.scopes[name]
	if !ok {
		k := KeysOf(name)
		sc = &scope{
			name: name, keys: k, others: k.Own, leases: map[lb.LeaseID]*lease{}, tombs: map[lb.LeaseID]time.Duration{}, settled: true,
		}
		sc.keys.Own += s.owner
		s.scopes[name] = sc
	}
	return sc
}

// lose strikes a lease off the books.
func (s *Store) lose(id lb.LeaseID) {
	if l, ok := s.leases[id]; ok {
		delete(l.scope.leases, id)
		delete(s.leases, id)
	}
}

func clamp(tokens int64) int64 { return min(max(tokens, 0), maxTokens) }

// appendID appends a lease's id as Redis keeps it.
func appendID(b []byte, id lb.LeaseID) []byte {
	var raw [8]byte
	binary.LittleEndian.PutUint64(raw[:], uint64(id))
	return appendArg(b, raw[:])
}
