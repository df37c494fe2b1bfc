package redisclient

import (
	"cmp"
	"strconv"
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
)

const (
	// dataTTL is how long a scope's data stay in Redis after the last heartbeat of any owner.
	dataTTL = time.Minute
	// maxCandidates is how many candidates a plan may have: a table has no more rows.
	maxCandidates = 65000
	// maxTokens is how many tokens a lease may count for: its entry has 32 bits for them.
	maxTokens = 1<<32 - 1
)

// GatewayBits is how many of the highest bits are the same in all owners of a gateway, and different in others: only
// owners of the same gateway can be told by [Store.OnGrant] what they were granted, and so may know of it before they
// poll. If two gateways have the same bits, what one of them grants the other is free only after the TTL if that dies.
const GatewayBits = 20

// Options are the settings of a store.
type Options struct {
	Owner   uint64        // unique among all owners of all gateways: see GatewayBits
	TTL     time.Duration // an owner without a heartbeat for so long is dead, and its leases are returned
	Timeout time.Duration // of each command: without an answer by then it has failed
	KV      lb.KV         // the gateway's shared memory, by which its workers agree on which of them loads a script
	Scope   string        // replaces the scopes of all plans, unless it is ""
}

// Store is the store in Redis of one owner: see the package's documentation. It implements [lb.RemoteStore].
type Store struct {
	// OnGrant is called when a step of this owner has granted requests of another one of the gateway, which should call
	// Hear with news if it can be reached. news belongs to it.
	OnGrant func(owner uint64, news []byte)
	// OnFailure is called for each heartbeat that has failed: at least once a second while those in use fail.
	OnFailure func(err error)

	client     *client
	owner      string
	number     uint64 // Options.Owner
	ttl        time.Duration
	fixedScope string // Options.Scope
	scopes     map[string]*scopeState
	leases     map[lb.LeaseID]*lease
	// releasedEarly are leases that were released before their reservation, and until when that is remembered.
	releasedEarly map[lb.LeaseID]time.Duration
	undecided     int           // reservations without an answer that may wait
	polledAt      time.Duration // when the latest poll was sent, of whichever scope
	tasks         uint64        // that were scheduled
	seq           uint64        // counts what was sent and received: a logical clock that orders both
	heartbeatErr  error
}

var _ lb.RemoteStore = (*Store)(nil)

// scopeState is what this owner knows about one scope.
type scopeState struct {
	name         string
	ofTenants    bool // see lb.IsOfTenants
	keys         Keys // Leases is the complete key of this owner
	node         clusterNode
	leasesPrefix string // the Leases prefix of all owners
	lists        []*candidateList
	leases       map[lb.LeaseID]*lease
	tombstones   map[lb.LeaseID]time.Duration // that may be in Redis, and until when
	unrefunded   map[lb.LeaseID]*reservation  // with budgets, and given up: they may have been charged
	lastUsed     time.Duration
	owners       int        // how many there are in the scope, by the last heartbeat
	heartbeat    *heartbeat // nil if none is in progress
	freeingRows  bool       // a search for unused rows is in progress
	drained      bool       // the last heartbeat found nothing of this owner, and nothing was sent since
	heldSince    string     // time of Redis since which it has returned none of the leases, by the last heartbeat

	pageCount     int           // that the latest reservation named
	pagesExpireAt time.Duration // when the pages expire at the earliest, as far as this owner has extended that

	toAssert  []lb.LeaseID // leases that Redis does not count as they are
	asserting bool         // a command that asserts some of them is on its way

	waiters  map[lb.LeaseID]*waiter
	polls    int    // in progress
	asked    uint64 // when the latest one was sent, by Store.seq
	answered uint64 // when the latest one was sent that has an answer
	news     []byte // stamp of the latest answer, nil for none
	fetched  int    // how many requests that named
	queue    []byte // the beginning of the queue in Redis, as last seen
	stamp    string // of the queue in which the requests wait

	toSend    []*waiter // to reserve again, those that came first first
	resending int       // such reservations on their way
	isSending bool      // some are being sent
}

type leaseState uint8

const (
	pending  leaseState = iota // the reservation has no answer yet
	waiting                    // in the queue
	held                       // granted
	released                   // released before the reservation had an answer
)

type lease struct {
	scope        *scopeState
	state        leaseState
	addr         string
	tokens       int64
	version      uint8 // counts the changes, modulo 256, so that Redis can ignore one that arrives after a later one
	grant        lb.Grant
	charged      bool // in a budget, and that in Redis: see Settle
	turn         turn
	unconfirmed  int64        // tokens that corrections have charged it, as far as Redis has not confirmed that
	moves        uint8        // counts corrections that were left out because the lease was not charged
	confirmedSeq uint64       // when it became certain that Redis has the lease, by Store.seq
	reservation  *reservation // nil once that was answered
	waiter       *waiter      // while it waits
	unsynced     bool         // Redis may not have the present address and tokens
}

// New returns a store over the transport.
func New(t Transport, o Options) *Store {
	return &Store{
		client: newClient(t, o.Timeout, o.KV), owner: strconv.FormatUint(o.Owner, 16), number: o.Owner,
		ttl: o.TTL, fixedScope: o.Scope,
		scopes: map[string]*scopeState{}, leases: map[lb.LeaseID]*lease{},
		releasedEarly: map[lb.LeaseID]time.Duration{}, OnGrant: func(uint64, []byte) {}, OnFailure: func(error) {},
	}
}

// Ready reports whether a reservation may be tried: whether the circuit breaker is closed.
func (s *Store) Ready(time.Duration) bool { return !s.client.breaker.open }

// Expire fails the commands whose deadlines have passed. It returns the earliest deadline of the others, 0 if there are
// none.
func (s *Store) Expire(now time.Duration) time.Duration { return s.client.expire(now) }

// Postpone moves every deadline by d, but each deadline only once. It is for a caller that was held up for d: it could
// not have received an answer in that time, and that must not count as a failure of Redis.
func (s *Store) Postpone(d time.Duration) { s.client.postpone(d) }

// HeartbeatErr returns why the last heartbeat failed, nil if it succeeded.
func (s *Store) HeartbeatErr() error { return s.heartbeatErr }

// Drained reports whether the last heartbeats found that Redis has nothing of this owner any more. Until then a store
// that is no longer needed should continue its heartbeats: what Redis did not receive during an outage would stay there
// until the TTL has passed.
func (s *Store) Drained() bool {
	for _, sc := range s.scopes {
		if !sc.drained {
			return false
		}
	}
	return true
}

// Owners returns how many owners there were at the last heartbeat, over all gateways. Of several scopes, the largest
// number counts.
func (s *Store) Owners() int {
	n := 0
	for _, sc := range s.scopes {
		n = max(n, sc.owners)
	}
	return n
}

// Adopt implements [lb.RemoteStore].
func (s *Store) Adopt(now time.Duration, id lb.LeaseID, scope, addr string, tokens int64) {
	l := s.addLease(now, id, scope, &lease{state: held, addr: addr, tokens: clampTokens(tokens)})
	s.sendAssert(now, l.scope, []lb.LeaseID{id}, func(time.Duration, error) {})
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
	l.tokens = clampTokens(tokens)
	l.version++
	s.sendAmend(now, id, l)
}

// sendAmend sends the lease's present address and tokens. If the command fails, the next heartbeat asserts the lease.
func (s *Store) sendAmend(now time.Duration, id lb.LeaseID, l *lease) {
	l.unsynced = true
	b := scriptAmend.command(nil, 3, 5)
	b = appendArg(b, l.scope.keys.Table)
	b = appendArg(b, l.scope.keys.Rows)
	b = appendArg(b, l.scope.keys.Leases)
	b = appendInt(b, dataTTL.Milliseconds())
	b = appendID(b, id)
	b = appendInt(b, l.tokens)
	b = appendInt(b, int64(l.version))
	b = appendArg(b, l.addr)
	version := l.version
	s.sendBackground(now, scriptAmend, l.scope, b, func(now time.Duration, v Value, err error) {
		v, grants := splitGrants(v, 1)
		if err == nil && v.Int == 1 && l.version == version {
			l.unsynced = false
		}
		s.passOn(now, l.scope, grants)
	})
}

// Release implements [lb.Store].
func (s *Store) Release(now time.Duration, id lb.LeaseID) {
	l, ok := s.leases[id]
	if !ok {
		s.releasedEarly[id] = now + s.ttl
		return
	}
	s.removeLease(id)
	if l.state == pending {
		l.state = released
		s.cancel(now, l.reservation)
		return
	}
	again := l.state == waiting && l.waiter.again != nil
	l.state = released
	if again { // its reservation, sent again, may still run
		s.cancel(now, l.waiter.again)
		return
	}
	if l.waiter != nil && l.waiter.plan.HasBudget() { // it may have been charged already
		s.cancel(now, s.reservationOf(now, l.waiter))
		return
	}
	s.sendRelease(now, l.scope, scriptRelease, l.scope.releaseCommand(true, l.turn, id), id)
}

// releaseCommand returns the command that releases the leases. granted reports that the answers to their reservations
// were received; otherwise a reservation may run after this command, and a tombstone is left for it. The turn is that
// of a single lease.
func (sc *scopeState) releaseCommand(granted bool, t turn, ids ...lb.LeaseID) []byte {
	args := 2 + len(ids)
	if t.corrected != 0 {
		args++
	}
	b := scriptRelease.command(make([]byte, 0, 256), 2, args)
	b = appendArg(b, sc.keys.Table)
	b = appendArg(b, sc.keys.Leases)
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
func (s *Store) sendRelease(now time.Duration, sc *scopeState, sp *script, cmd []byte, ids ...lb.LeaseID) {
	s.sendBackground(now, sp, sc, cmd, func(now time.Duration, v Value, err error) {
		v, grants := splitGrants(v, 1)
		if err != nil || v.Int == int64(len(ids)) { // no tombstone was left: what a heartbeat finds later is a lease
			for _, id := range ids {
				delete(sc.tombstones, id)
			}
		}
		if (sp == scriptRefund || sp == scriptRefundTenant) && err == nil {
			delete(sc.unrefunded, ids[0])
		}
		s.passOn(now, sc, grants)
	})
}

// sendBackground sends a command that no request waits for, unless the breaker is open.
func (s *Store) sendBackground(
	now time.Duration, sp *script, sc *scopeState, cmd []byte, done func(time.Duration, Value, error),
) {
	s.seq++
	s.client.send(now, sp, &sc.node, cmd, false, done)
}

// addLease adds a lease to the store and to its scope.
func (s *Store) addLease(now time.Duration, id lb.LeaseID, name string, l *lease) *lease {
	sc := s.scopeOf(name)
	sc.lastUsed, sc.drained = now, false
	l.scope = sc
	s.leases[id], sc.leases[id] = l, l
	return l
}

// removeLease removes a lease from the store and from its scope.
func (s *Store) removeLease(id lb.LeaseID) {
	if l, ok := s.leases[id]; ok {
		delete(l.scope.leases, id)
		delete(l.scope.waiters, id)
		delete(s.leases, id)
	}
}

// scopeName returns the name under which a plan's scope is counted. Tenants have one of their own.
func (s *Store) scopeName(name string) string {
	if s.fixedScope != "" && lb.IsOfTenants(name) {
		return lb.TenantsScope + s.fixedScope
	}
	return cmp.Or(s.fixedScope, name)
}

// scopeOf returns the state of a plan's scope.
func (s *Store) scopeOf(name string) *scopeState {
	name = s.scopeName(name)
	sc, ok := s.scopes[name]
	if !ok {
		k := KeysOf(name)
		sc = &scopeState{
			name: name, ofTenants: lb.IsOfTenants(name), keys: k, leasesPrefix: k.Leases, drained: true,
			leases: map[lb.LeaseID]*lease{}, tombstones: map[lb.LeaseID]time.Duration{},
			waiters: map[lb.LeaseID]*waiter{}, unrefunded: map[lb.LeaseID]*reservation{},
		}
		sc.keys.Leases += s.owner
		s.scopes[name] = sc
	}
	return sc
}

func clampTokens(tokens int64) int64 { return min(max(tokens, 0), maxTokens) }

// appendID appends a lease's id in the format of Redis: 8 bytes, little-endian.
func appendID(b []byte, id lb.LeaseID) []byte {
	var raw [8]byte
	wire.PutUint64(raw[:], 0, uint64(id))
	return appendArg(b, raw[:])
}
