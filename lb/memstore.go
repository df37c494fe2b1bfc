package lb

import (
	"errors"
	"strconv"
	"time"
)

const (
	keyPrefix  = "warmgate/1/" // the 1 is the version of the layout: a change of it must not read the old values
	tableSlots = 256           // scopes that one gateway can count at the same time
	maxTokens  = 1<<32 - 1     // of one lease: what a step has room for
)

// Prepare creates the keys of the embedded store in shared memory, unless they are there. It must run before any
// worker runs, because creating a key is not a swap: see [KV].
func Prepare(kv KV) error {
	for _, key := range []string{rosterKey, takingKey} {
		switch _, _, err := kv.Get(key); {
		case errors.Is(err, ErrNotFound):
			return prepare(kv)
		case err != nil:
			return &storeError{"preparing shared memory", err}
		}
	}
	return nil
}

// prepare creates each key that is not there, the roster last.
func prepare(kv KV) error {
	var failed error
	create := func(key string, val []byte) {
		if failed != nil {
			return
		}
		if _, _, failed = kv.Get(key); errors.Is(failed, ErrNotFound) {
			failed = kv.Set(key, val, 0)
		}
	}
	create(takingKey, []byte{0})
	for slot := range tableSlots {
		create(tableKey(slot), []byte{0})
	}
	if create(rosterKey, newRoster()); failed != nil {
		return &storeError{"preparing shared memory", failed}
	}
	return nil
}

func tableKey(slot int) string { return keyPrefix + "table/" + strconv.Itoa(slot) }

func sheetKey(slot, seat int) string {
	return keyPrefix + "sheet/" + strconv.Itoa(slot) + "/" + strconv.Itoa(seat)
}

// MemStats counts what the embedded store had to do besides its work.
type MemStats struct {
	Retries   uint64 // swaps lost to another worker and tried again
	Returned  uint64 // dead owners whose leases were returned
	Corrected uint64 // tables whose totals differed from the sum over their owners
}

// MemStore is the embedded store: exact counts over all workers of one gateway, in the gateway's shared memory.
//
// Each scope is one value that holds the load of every endpoint, so that choosing and reserving are one
// compare-and-swap. Each owner also keeps a sheet of what it holds, which only it writes; totals are the sum of the
// sheets, and are set right from them when an owner dies.
type MemStore struct {
	Stats MemStats

	kv     KV
	owner  uint64
	ttl    time.Duration
	seat   int // -1 until the first reservation
	scopes map[string]*scope
	leases map[LeaseID]lease
	// early holds releases that came before their reservation, and when to forget them.
	early map[LeaseID]time.Duration
	// late holds releases that could not be written.
	late []LeaseID
	// reserved counts the reservations since the last Flush; busy says that there were many before it.
	reserved int
	busy     bool

	prefixes prefixIndex

	slots  map[string]int // by scope
	listed uint32         // the version of the last taking of a slot that they are from

	loads   []Load   // scratch
	hashes  []uint64 // scratch
	matched []int    // scratch
}

var _ Store = (*MemStore)(nil)

// scope is what this owner knows of one scope.
type scope struct {
	name  string
	slot  int
	sheet sheet
	// written is the sequence number of the sheet in shared memory, valid if inPlace.
	written uint32
	inPlace bool
	// hashes of the rows of the table last written, to find the endpoints again once it has changed.
	hashes []uint64
	hashed uint32 // the generation of that table
	// pending steps wait for the next swap: see MemStore.defers.
	pending []step
	// rows of the candidates last asked for, in the generation located.
	asked   []Candidate
	rows    []int
	located uint32
}

type lease struct {
	scope  *scope
	row    int
	tokens int64
	grant  Grant
}

// NewMemStore returns the store of one owner over shared memory that [Prepare] has prepared. owner must be unique
// among all owners, and not 0; an owner silent for longer than ttl loses its leases.
func NewMemStore(kv KV, owner uint64, ttl time.Duration) *MemStore {
	return &MemStore{
		kv: kv, owner: owner, ttl: ttl, seat: -1, prefixes: prefixIndex{kv: kv},
		scopes: map[string]*scope{}, leases: map[LeaseID]lease{}, early: map[LeaseID]time.Duration{},
	}
}

// Reserve implements [Store].
func (s *MemStore) Reserve(now time.Duration, id LeaseID, p *Plan, done func(Grant, error)) {
	if l, ok := s.leases[id]; ok {
		done(l.grant, nil)
		return
	}
	if _, ok := s.early[id]; ok {
		delete(s.early, id)
		done(Grant{}, ErrReleased)
		return
	}
	done(s.reserve(now, id, p))
}

func (s *MemStore) reserve(now time.Duration, id LeaseID, p *Plan) (Grant, error) {
	if len(p.Candidates) == 0 {
		return Grant{}, ErrFull
	}
	s.reserved++
	sc := s.scope(p.Scope)
	var held []holding
	if p.Prefix.NeedsLookup() {
		held = s.prefixes.match(now, &p.Prefix)
	}
	var grant Grant
	st, err := s.swap(now, sc, func(t table) (table, step, error) {
		t, err := sc.locate(t, p.Candidates, &s.hashes)
		if err != nil {
			return nil, step{}, err
		}
		s.loads = s.loads[:0]
		for _, row := range sc.rows {
			s.loads = append(s.loads, t.load(row))
		}
		matched := s.matches(sc, t, held)
		i := Choose(p, s.loads, matched)
		if i == Full {
			return nil, step{}, ErrFull
		}
		grant = Grant{Index: i}
		if matched != nil {
			grant.Cached = matched[i]
		}
		tokens := p.AddedTokens(grant.Cached)
		grant.Load = Load{s.loads[i].Requests + 1, s.loads[i].Tokens + tokens}
		return t, step{from: noRow, to: sc.rows[i], toTokens: tokens}, nil
	})
	if err != nil {
		if sc.slot < 0 {
			delete(s.scopes, sc.name) // there is no room for it
		}
		return Grant{}, err
	}
	s.leases[id] = lease{scope: sc, row: st.to, tokens: st.toTokens, grant: grant}
	if p.Prefix.NeedsLookup() {
		s.prefixes.note(now, &p.Prefix, EndpointTag(p.Candidates[grant.Index].Addr))
	}
	return grant, nil
}

// matches returns how many blocks each candidate holds, nil if none holds any.
func (s *MemStore) matches(sc *scope, t table, held []holding) []int {
	if len(held) == 0 {
		return nil
	}
	s.matched = s.matched[:0]
	for _, row := range sc.rows {
		n := 0
		for _, h := range held {
			if h.endpoint == uint32(t.hash(row)) {
				n = h.blocks
			}
		}
		s.matched = append(s.matched, n)
	}
	return s.matched
}

// ForgetPrompt implements [Store].
func (s *MemStore) ForgetPrompt(_ time.Duration, _ LeaseID, p *Plan, addr string, n int) {
	s.prefixes.forget(&p.Prefix, EndpointTag(addr), n)
}

// RecordPrompt implements [Store].
func (s *MemStore) RecordPrompt(now time.Duration, _ LeaseID, p *Plan, addr string) {
	if p.Prefix.NeedsLookup() {
		s.prefixes.look(&p.Prefix)
		s.prefixes.note(now, &p.Prefix, EndpointTag(addr))
	}
}

// CountAt counts a request at addr, chosen elsewhere, under id. It is the caller's to see that id is not held.
func (s *MemStore) CountAt(now time.Duration, id LeaseID, scope, addr string, tokens int64) error {
	s.reserved++
	sc := s.scope(scope)
	tokens = min(max(tokens, 0), maxTokens)
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

// Amend implements [Store].
func (s *MemStore) Amend(now time.Duration, id LeaseID, addr string, tokens int64) {
	l, ok := s.leases[id]
	if !ok {
		return
	}
	tokens = min(max(tokens, 0), maxTokens)
	if addr == "" && s.defers(l.scope) {
		l.scope.pending = append(l.scope.pending, step{from: l.row, to: l.row, fromTokens: l.tokens, toTokens: tokens})
		l.tokens = tokens
		s.leases[id] = l
		return
	}
	st, err := s.swap(now, l.scope, func(t table) (table, step, error) {
		l = s.leases[id] // its row may have moved with the table
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

// Release implements [Store].
func (s *MemStore) Release(now time.Duration, id LeaseID) {
	if _, ok := s.leases[id]; !ok {
		s.early[id] = now + s.ttl
		return
	}
	if err := s.release(now, id); err != nil {
		s.late = append(s.late, id)
	}
}

func (s *MemStore) release(now time.Duration, id LeaseID) error {
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

// LeaseTokens returns for how many tokens the lease counts, 0 when it is not held.
func (s *MemStore) LeaseTokens(id LeaseID) int64 { return s.leases[id].tokens }

// HasLease says whether id is a lease of this owner.
func (s *MemStore) HasLease(id LeaseID) bool {
	_, ok := s.leases[id]
	return ok
}

// LeaseCount returns the number of leases that this owner holds.
func (s *MemStore) LeaseCount() int { return len(s.leases) }

func (s *MemStore) scope(name string) *scope {
	sc, ok := s.scopes[name]
	if !ok {
		sc = &scope{name: name, slot: -1, sheet: newSheet(s.owner)}
		s.scopes[name] = sc
	}
	return sc
}

// locate finds the row of every candidate, and returns the table with rows for those that had none.
func (sc *scope) locate(t table, cs []Candidate, scratch *[]uint64) (table, error) {
	if sc.located == t.generation() && sameEndpoints(sc.asked, cs) {
		sc.asked = cs
		return t, nil
	}
	hashes := (*scratch)[:0]
	for i := range cs {
		hashes = append(hashes, hashAddr(cs[i].Addr))
	}
	*scratch = hashes
	at := make(map[uint64]int, t.rows())
	for i := range t.rows() {
		at[t.hash(i)] = i
	}
	for _, h := range hashes {
		if _, ok := at[h]; ok {
			continue
		}
		var err error
		if t, err = t.withRows(hashes); err != nil {
			return nil, err
		}
		for i := range t.rows() {
			at[t.hash(i)] = i
		}
		break
	}
	sc.rows = sc.rows[:0]
	for _, h := range hashes {
		sc.rows = append(sc.rows, at[h])
	}
	sc.asked, sc.located = cs, t.generation()
	return t, nil
}

// sameEndpoints says whether two lists have the same endpoints in the same order, whatever these cost.
func sameEndpoints(a, b []Candidate) bool {
	if len(a) != len(b) {
		return false
	}
	if &a[0] == &b[0] {
		return true
	}
	for i := range a {
		if a[i].Addr != b[i].Addr {
			return false
		}
	}
	return true
}

// remember keeps the rows' hashes.
func (sc *scope) remember(t table) {
	sc.hashes = sc.hashes[:0]
	for i := range t.rows() {
		sc.hashes = append(sc.hashes, t.hash(i))
	}
	sc.hashed = t.generation()
}

func rowOf(t table, addr string) (table, int, error) {
	h := hashAddr(addr)
	if row := t.find(h); row != noRow {
		return t, row, nil
	}
	t, err := t.withRows([]uint64{h})
	if err != nil {
		return nil, noRow, err
	}
	return t, t.find(h), nil
}
