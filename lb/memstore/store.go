package memstore

import (
	"time"

	"github.com/warmgate/warmgate/lb"
)

// Stats counts what the store has to do besides its work.
type Stats struct {
	Retries   uint64 // compare-and-swaps that failed because another worker was faster, and were tried again
	Returned  uint64 // dead owners whose leases were returned
	Corrected uint64 // tables whose totals were not the sum of what their members held
}

// Store is the embedded store of one owner: exact counts over all workers of one gateway. It is an [lb.LocalStore].
type Store struct {
	Stats Stats

	kv     lb.KV
	owner  uint64
	ttl    time.Duration
	index  int // in the owner directory, -1 until the first reservation
	scopes map[string]*scope
	leases map[lb.LeaseID]lease
	// releasedEarly has the leases that were released before they were reserved, and when to forget that.
	releasedEarly map[lb.LeaseID]time.Duration
	// failedReleases are those that could not be written. The next heartbeat tries again.
	failedReleases []lb.LeaseID
	// reserved counts the reservations since the last Flush; busy is whether there were many before that.
	reserved int
	busy     bool

	prefixes prefixIndex

	slots        map[string]int // by scope, for lookup
	slotsVersion uint32         // of the slot assignment that slots are from

	loads   []lb.Load // reused by reserve
	hashes  []uint64  // reused by locate
	matched []int     // reused by matchedBlocks
}

var _ lb.LocalStore = (*Store)(nil)

// scope is what this owner knows of one scope.
type scope struct {
	name string
	slot int        // -1 for none
	held checkpoint // what this owner holds, up to date
	// written is whether shared memory has a checkpoint of this owner for the slot, and writtenSeq its sequence number.
	written    bool
	writtenSeq uint32
	// hashes of the rows of the table that was written last, to find the endpoints of leases in a table that has
	// changed.
	hashes           []uint64
	hashesGeneration uint32 // of that table
	// pending steps wait for the next swap: see Store.defers.
	pending []step
	// rows of the candidates of the latest reservation.
	candidates     []lb.Candidate
	rows           []int
	rowsGeneration uint32 // of the table in which they are
}

type lease struct {
	scope  *scope
	row    int
	tokens int64
	grant  lb.Grant
}

// New returns the store of one owner over shared memory that [Prepare] has prepared. owner must be unique among all
// owners, and not 0. An owner without a heartbeat for longer than ttl loses its leases.
func New(kv lb.KV, owner uint64, ttl time.Duration) *Store {
	return &Store{
		kv: kv, owner: owner, ttl: ttl, index: -1, prefixes: prefixIndex{kv: kv},
		scopes: map[string]*scope{}, leases: map[lb.LeaseID]lease{}, releasedEarly: map[lb.LeaseID]time.Duration{},
	}
}

// Reserve implements [lb.Store].
func (s *Store) Reserve(now time.Duration, id lb.LeaseID, p *lb.Plan, done func(lb.Grant, error)) {
	if l, ok := s.leases[id]; ok {
		done(l.grant, nil)
		return
	}
	if _, ok := s.releasedEarly[id]; ok {
		delete(s.releasedEarly, id)
		done(lb.Grant{}, lb.ErrReleased)
		return
	}
	done(s.reserve(now, id, p))
}

func (s *Store) reserve(now time.Duration, id lb.LeaseID, p *lb.Plan) (lb.Grant, error) {
	if len(p.Candidates) == 0 {
		return lb.Grant{}, lb.ErrFull
	}
	s.reserved++
	sc := s.scope(p.Scope)
	var matches []match
	if p.Prefix.NeedsLookup() {
		matches = s.prefixes.find(now, &p.Prefix)
	}
	var grant lb.Grant
	st, err := s.swap(now, sc, func(t table) (table, step, error) {
		t, err := sc.locate(t, p.Candidates, &s.hashes)
		if err != nil {
			return nil, step{}, err
		}
		s.loads = s.loads[:0]
		rows := t[t.rowsAt():]
		for _, row := range sc.rows {
			s.loads = append(s.loads, loadAt(rows, row))
		}
		matched := s.matchedBlocks(sc, t, matches)
		i := lb.Choose(p, s.loads, matched)
		if i == lb.Full {
			return nil, step{}, lb.ErrFull
		}
		grant = lb.Grant{Index: i}
		if matched != nil {
			grant.Cached = matched[i]
		}
		tokens := p.AddedTokens(grant.Cached)
		grant.Load = lb.Load{Requests: s.loads[i].Requests + 1, Tokens: s.loads[i].Tokens + tokens}
		return t, step{from: noRow, to: sc.rows[i], toTokens: tokens}, nil
	})
	if err != nil {
		if sc.slot < 0 {
			delete(s.scopes, sc.name) // there is no slot for it
		}
		return lb.Grant{}, err
	}
	s.leases[id] = lease{scope: sc, row: st.to, tokens: st.toTokens, grant: grant}
	if p.Prefix.NeedsLookup() {
		s.prefixes.record(now, &p.Prefix, lb.EndpointTag(p.Candidates[grant.Index].Addr))
	}
	return grant, nil
}

// matchedBlocks returns how many leading blocks of the prompt each candidate matches, nil if none matches any.
func (s *Store) matchedBlocks(sc *scope, t table, matches []match) []int {
	if len(matches) == 0 {
		return nil
	}
	s.matched = s.matched[:0]
	for _, row := range sc.rows {
		n := 0
		for _, m := range matches {
			if m.tag == uint32(t.hash(row)) {
				n = m.blocks
			}
		}
		s.matched = append(s.matched, n)
	}
	return s.matched
}

// ForgetPrompt implements [lb.Store].
func (s *Store) ForgetPrompt(_ time.Duration, _ lb.LeaseID, p *lb.Plan, addr string, n int) {
	s.prefixes.forget(&p.Prefix, lb.EndpointTag(addr), n)
}

// RecordPrompt implements [lb.Store].
func (s *Store) RecordPrompt(now time.Duration, _ lb.LeaseID, p *lb.Plan, addr string) {
	if p.Prefix.NeedsLookup() {
		s.prefixes.locate(&p.Prefix)
		s.prefixes.record(now, &p.Prefix, lb.EndpointTag(addr))
	}
}

// CountAt implements [lb.LocalStore].
func (s *Store) CountAt(now time.Duration, id lb.LeaseID, scope, addr string, tokens int64) error {
	s.reserved++
	sc := s.scope(scope)
	tokens = min(max(tokens, 0), lb.MaxTokens)
	st, err := s.swap(now, sc, func(t table) (table, step, error) {
		t, row, err := rowOf(t, addr)
		return t, step{from: noRow, to: row, toTokens: tokens}, err
	})
	if err != nil {
		if sc.slot < 0 {
			delete(s.scopes, sc.name)
		}
		return err
	}
	s.leases[id] = lease{scope: sc, row: st.to, tokens: tokens}
	return nil
}

// Amend implements [lb.Store].
func (s *Store) Amend(now time.Duration, id lb.LeaseID, addr string, tokens int64) {
	l, ok := s.leases[id]
	if !ok {
		return
	}
	tokens = min(max(tokens, 0), lb.MaxTokens)
	if addr == "" && s.defers(l.scope) {
		l.scope.pending = append(l.scope.pending, step{from: l.row, to: l.row, fromTokens: l.tokens, toTokens: tokens})
		l.tokens = tokens
		s.leases[id] = l
		return
	}
	st, err := s.swap(now, l.scope, func(t table) (table, step, error) {
		l = s.leases[id] // its row is another one if the leases had to be counted in another table
		to := l.row
		if addr != "" {
			var err error
			if t, to, err = rowOf(t, addr); err != nil {
				return nil, step{}, err
			}
		}
		return t, step{from: l.row, to: to, fromTokens: l.tokens, toTokens: tokens}, nil
	})
	if err == nil {
		l.row, l.tokens = st.to, tokens
		s.leases[id] = l
	}
}

// Release implements [lb.Store].
func (s *Store) Release(now time.Duration, id lb.LeaseID) {
	if _, ok := s.leases[id]; !ok {
		s.releasedEarly[id] = now + s.ttl
		return
	}
	if err := s.release(now, id); err != nil {
		s.failedReleases = append(s.failedReleases, id)
	}
}

func (s *Store) release(now time.Duration, id lb.LeaseID) error {
	l, ok := s.leases[id]
	if !ok {
		return nil
	}
	if s.defers(l.scope) {
		l.scope.pending = append(l.scope.pending, step{from: l.row, to: noRow, fromTokens: l.tokens})
		delete(s.leases, id)
		return nil
	}
	_, err := s.swap(now, l.scope, func(t table) (table, step, error) {
		l = s.leases[id]
		return t, step{from: l.row, to: noRow, fromTokens: l.tokens}, nil
	})
	if err == nil {
		delete(s.leases, id)
	}
	return err
}

// LeaseTokens returns how many tokens the lease counts, 0 if this owner does not hold it.
func (s *Store) LeaseTokens(id lb.LeaseID) int64 { return s.leases[id].tokens }

// HasLease implements [lb.LocalStore].
func (s *Store) HasLease(id lb.LeaseID) bool {
	_, ok := s.leases[id]
	return ok
}

// LeaseCount returns the number of leases that this owner holds.
func (s *Store) LeaseCount() int { return len(s.leases) }

// scope returns what this owner knows of the scope.
func (s *Store) scope(name string) *scope {
	sc, ok := s.scopes[name]
	if !ok {
		sc = &scope{name: name, slot: -1, held: newCheckpoint(s.owner)}
		s.scopes[name] = sc
	}
	return sc
}
