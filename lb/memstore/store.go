package memstore

import (
	"time"

	"github.com/warmgate/warmgate/lb"
)

// Store is the embedded store of one owner: exact counts over all workers of one gateway. It is an [lb.LocalStore].
type Store struct {
	Stats Stats

	// OnGrant is called when a step of this owner has granted a waiting request of another one, which should poll.
	OnGrant func(owner uint64)

	kv  lb.KV
	ttl time.Duration // of an owner without a heartbeat

	self     presence
	tables   tables
	prefixes prefixIndex
	requests requests
	ledger   ledger
	placer   placer
	sweeper  sweeper

	// releasedEarly has the leases that were released before they were reserved, and when to forget that.
	releasedEarly map[lb.LeaseID]time.Duration
	// failedReleases and failedAmends are those that could not be written. The next heartbeat tries again.
	failedReleases []lb.LeaseID
	failedAmends   map[lb.LeaseID]amendment
	tasks          uint64 // that were scheduled
}

var _ lb.LocalStore = (*Store)(nil)

// New returns the store of one owner over shared memory that [Prepare] has prepared. owner must be unique among all
// owners, and not 0. An owner without a heartbeat for longer than ttl loses its leases.
func New(kv lb.KV, owner uint64, ttl time.Duration) *Store {
	s := &Store{
		OnGrant: func(uint64) {}, kv: kv, ttl: ttl,
		self:          presence{kv: kv, owner: owner, index: -1},
		prefixes:      prefixIndex{kv: kv},
		releasedEarly: map[lb.LeaseID]time.Duration{}, failedAmends: map[lb.LeaseID]amendment{},
	}
	s.tables = tables{kv: kv, stats: &s.Stats}
	s.requests = requests{
		leases: map[lb.LeaseID]lease{}, waiters: map[lb.LeaseID]*scope{}, prefixes: &s.prefixes,
	}
	s.ledger = ledger{
		kv: kv, self: &s.self, tables: &s.tables, requests: &s.requests, stats: &s.Stats, wake: s.wake,
		scopes: map[string]*scope{}, draft: newDraft(kv, owner),
	}
	s.placer.self = &s.self
	s.sweeper = sweeper{
		kv: kv, tables: &s.tables, ttl: ttl, stats: &s.Stats, draft: &s.ledger.draft, wake: s.wake,
	}
	return s
}

// wake has the owners look for what they were granted.
func (s *Store) wake(owners []uint64) {
	for _, owner := range owners {
		s.OnGrant(owner)
	}
}

// Reserve implements [lb.Store].
func (s *Store) Reserve(now time.Duration, id lb.LeaseID, p *lb.Plan, done func(lb.Grant, error)) {
	if l, ok := s.requests.leases[id]; ok {
		done(l.grant, nil)
		return
	}
	if _, ok := s.releasedEarly[id]; ok {
		delete(s.releasedEarly, id)
		done(lb.Grant{}, lb.ErrReleased)
		return
	}
	if sc, ok := s.requests.waiters[id]; ok {
		w := sc.waiters[id]
		first := w.done
		w.done = func(g lb.Grant, err error) { first(g, err); done(g, err) }
		return
	}
	s.reserveOrQueue(now, id, p, done)
	s.requests.answer(now)
}

func (s *Store) reserveOrQueue(now time.Duration, id lb.LeaseID, p *lb.Plan, done func(lb.Grant, error)) {
	if p.HasNowhere() {
		done(lb.Grant{}, lb.ErrFull)
		return
	}
	s.ledger.reserved++
	r := reservation{id: id, plan: p, scope: s.ledger.scope(tableFor(p))}
	r.scope.queues = r.scope.queues || p.Wait.Waits()
	if p.Prefix.NeedsLookup() {
		r.matches = s.prefixes.find(now, &p.Prefix)
	}
	err := s.ledger.swap(now, r.scope, func(d *draft) error { return s.placer.place(now, d, &r) })
	if err == nil && s.requests.waiters[p.Wait.Instead] == r.scope {
		s.requests.forget(r.scope, p.Wait.Instead)
	}
	switch {
	case err != nil:
		s.ledger.discard(r.scope)
		r.grant.Expected = r.expected
		done(r.grant, err)
	case r.waits:
		s.requests.await(now, &s.ledger.draft, &r, done)
	case r.refused != nil:
		r.grant.Expected = r.expected
		done(r.grant, r.refused)
	default:
		s.requests.leases[id] = lease{
			scope: r.scope, row: r.row, tokens: r.tokens, grant: r.grant, charged: p.HasBudget(),
		}
		if p.Prefix.NeedsLookup() {
			s.prefixes.record(now, &p.Prefix, lb.EndpointTag(p.Candidates[r.grant.Index].Addr))
		}
		done(r.grant, nil)
	}
}

// ForgetPrompt implements [lb.Store].
func (s *Store) ForgetPrompt(_ time.Duration, _ lb.LeaseID, p *lb.Plan, addr string, n int) {
	s.prefixes.forget(&p.Prefix, lb.EndpointTag(addr), n)
}

// RecordPrompt implements [lb.Store].
func (s *Store) RecordPrompt(now time.Duration, _ lb.LeaseID, p *lb.Plan, addr string) {
	if p.Prefix.NeedsLookup() {
		s.prefixes.recordPrompt(now, &p.Prefix, lb.EndpointTag(addr))
	}
}

// CountAt implements [lb.LocalStore].
func (s *Store) CountAt(now time.Duration, id lb.LeaseID, name, addr string, tokens int64) error {
	tokens = min(max(tokens, 0), lb.MaxTokens)
	l := lease{tokens: tokens}
	return s.countIn(now, id, tableName(name, addr), l, func(d *draft, _ *scope) (row int, err error) {
		d.table, row, err = rowOf(d.table, addr)
		return row, err
	})
}

// CountBudget implements [lb.LocalStore].
func (s *Store) CountBudget(now time.Duration, id lb.LeaseID, p *lb.Plan, index int) error {
	l := lease{tokens: p.AddedTokens(0), charged: true}
	table := tableName(p.Scope, p.Candidates[index].Addr)
	return s.countIn(now, id, table, l, func(d *draft, sc *scope) (row int, err error) {
		return s.placer.chargeAt(now, d, sc, p, index)
	})
}

// countIn counts a lease in the row that find returns, which may be called several times.
func (s *Store) countIn(
	now time.Duration, id lb.LeaseID, table string, l lease, find func(*draft, *scope) (row int, err error),
) error {
	s.ledger.reserved++
	sc := s.ledger.scope(table)
	l.scope = sc
	err := s.ledger.swap(now, sc, func(d *draft) (err error) {
		if l.row, err = find(d, sc); err == nil {
			d.take(step{from: noRow, to: l.row, toTokens: l.tokens})
		}
		return err
	})
	if err != nil {
		s.ledger.discard(sc)
		return err
	}
	s.requests.leases[id] = l
	s.requests.answer(now)
	return nil
}

// amendment is what a lease shall count from now on.
type amendment struct {
	addr   string // "" for where it is
	tokens int64
}

// Amend implements [lb.Store].
func (s *Store) Amend(now time.Duration, id lb.LeaseID, addr string, tokens int64) {
	if _, ok := s.requests.leases[id]; !ok {
		return
	}
	if addr == "" {
		addr = s.failedAmends[id].addr
	}
	a := amendment{addr, min(max(tokens, 0), lb.MaxTokens)}
	delete(s.failedAmends, id)
	if s.amendLease(now, id, a) != nil {
		s.failedAmends[id] = a
	}
	s.requests.answer(now)
}

func (s *Store) amendLease(now time.Duration, id lb.LeaseID, a amendment) error {
	l := s.requests.leases[id]
	if a.addr == "" && s.ledger.defers(l.scope) {
		st := step{from: l.row, to: l.row, fromTokens: l.tokens, toTokens: a.tokens}
		l.scope.pending = append(l.scope.pending, st)
		l.tokens = a.tokens
		s.requests.leases[id] = l
		return nil
	}
	to := noRow
	err := s.ledger.swap(now, l.scope, func(d *draft) (err error) {
		l = s.requests.leases[id] // its row is another one if the leases had to be counted in another table
		to = l.row
		if a.addr != "" {
			if d.table, to, err = rowOf(d.table, a.addr); err != nil {
				return err
			}
		}
		d.take(step{from: l.row, to: to, fromTokens: l.tokens, toTokens: a.tokens})
		return nil
	})
	if err == nil {
		l.row, l.tokens = to, a.tokens
		s.requests.leases[id] = l
	}
	return err
}

// Release implements [lb.Store].
func (s *Store) Release(now time.Duration, id lb.LeaseID) {
	if sc, ok := s.requests.waiters[id]; ok {
		s.leave(now, sc, id)
		return
	}
	if _, ok := s.requests.leases[id]; !ok {
		s.releasedEarly[id] = now + s.ttl
		return
	}
	s.requests.uncharge(id)
	if err := s.releaseLease(now, id); err != nil {
		s.failedReleases = append(s.failedReleases, id)
	}
	s.requests.answer(now)
}

func (s *Store) releaseLease(now time.Duration, id lb.LeaseID) error {
	l, ok := s.requests.leases[id]
	if !ok {
		return nil
	}
	delete(s.failedAmends, id)
	if s.ledger.defers(l.scope) {
		l.scope.pending = append(l.scope.pending, step{from: l.row, to: noRow, fromTokens: l.tokens})
		delete(s.requests.leases, id)
		return nil
	}
	err := s.ledger.swap(now, l.scope, func(d *draft) error {
		l = s.requests.leases[id]
		d.take(step{from: l.row, to: noRow, fromTokens: l.tokens})
		d.correctTurn(now, &l.turn)
		return nil
	})
	if err == nil {
		delete(s.requests.leases, id)
	}
	return err
}

// leave takes a request out of the queue that waits no longer.
func (s *Store) leave(now time.Duration, sc *scope, id lb.LeaseID) {
	s.requests.forget(sc, id)
	err := s.ledger.swap(now, sc, func(d *draft) error {
		d.leave(s.self.owner, id)
		return nil
	})
	sc.left = sc.left || err != nil
	s.requests.answer(now)
}

// HasLease implements [lb.LocalStore].
func (s *Store) HasLease(id lb.LeaseID) bool {
	_, ok := s.requests.leases[id]
	return ok
}

// LeaseCount returns the number of leases that this owner holds.
func (s *Store) LeaseCount() int { return len(s.requests.leases) }
