package redisclient

import (
	"cmp"
	"strconv"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// GatewayBits is how many of the highest bits are the same in all owners of a gateway, and different in others: only
// owners of the same gateway can be told by [Store.OnGrant] what they were granted, and so may know of it before they
// poll. If two gateways have the same bits, what one of them grants the other is free only after the TTL if that dies.
const GatewayBits = 20

// idleScopeTTL is how long heartbeats of a scope continue after its last lease.
const idleScopeTTL = time.Minute

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

	owner      owner
	number     uint64 // Options.Owner
	fixedScope string // Options.Scope
	scopes     map[string]*scope
	leases     map[lb.LeaseID]*lease // of all scopes
	// releasedEarly are leases that were released before their reservation, and until when that is remembered.
	releasedEarly map[lb.LeaseID]time.Duration
	polledAt      time.Duration // when the latest poll was sent, of whichever scope
	tasks         uint64        // that were scheduled
	heartbeatErr  error
}

var _ lb.RemoteStore = (*Store)(nil)

// New returns a store over the transport.
func New(t Transport, o Options) *Store {
	s := &Store{
		number: o.Owner, fixedScope: o.Scope,
		scopes: map[string]*scope{}, leases: map[lb.LeaseID]*lease{},
		releasedEarly: map[lb.LeaseID]time.Duration{}, OnGrant: func(uint64, []byte) {}, OnFailure: func(error) {},
	}
	s.owner = owner{
		client: newClient(t, o.Timeout, o.KV), name: strconv.FormatUint(o.Owner, 16), ttl: o.TTL,
		onGrant: func(owner uint64, news []byte) { s.OnGrant(owner, news) },
	}
	return s
}

// Ready reports whether a reservation may be tried: whether the circuit breaker is closed.
func (s *Store) Ready(time.Duration) bool { return !s.owner.client.breaker.open }

// Expire fails the commands whose deadlines have passed. It returns the earliest deadline of the others, 0 if there are
// none.
func (s *Store) Expire(now time.Duration) time.Duration { return s.owner.client.expire(now) }

// Postpone moves every deadline by d, but each deadline only once. It is for a caller that was held up for d: it could
// not have received an answer in that time, and that must not count as a failure of Redis.
func (s *Store) Postpone(d time.Duration) { s.owner.client.postpone(d) }

// OnReplica reports whether the configured name has led to a read-only replica lately, and the address of the master
// that is used in its place, "" if none is known: then requests fail that the name leads to the replica.
func (s *Store) OnReplica(now time.Duration) (master string, replica bool) {
	m := &s.owner.client.master
	return m.addr, m.addr != "" || now < m.replicaUntil
}

// HeartbeatErr returns why the last heartbeat failed, nil if it succeeded.
func (s *Store) HeartbeatErr() error { return s.heartbeatErr }

// Drained reports whether the last heartbeats found that Redis has nothing of this owner any more. Until then a store
// that is no longer needed should continue its heartbeats: what Redis did not receive during an outage would stay there
// until the TTL has passed.
func (s *Store) Drained() bool {
	for _, sc := range s.scopes {
		if !sc.ledger.drained {
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
		n = max(n, sc.heartbeats.owners)
	}
	return n
}

// Heartbeat implements [lb.Store]: it begins one heartbeat for each scope in use. The answers arrive later;
// HeartbeatErr returns how the last one went. Heartbeats are sent also while the breaker is open, and a successful one
// closes it.
func (s *Store) Heartbeat(now time.Duration) error {
	deleteExpired(s.releasedEarly, now)
	for name, sc := range s.scopes {
		deleteExpired(sc.ledger.tombstones, now)
		for id, r := range sc.ledger.unrefunded {
			if now-r.sentAt > 10*tombstoneTTL { // no heartbeat has finished since
				delete(sc.ledger.unrefunded, id)
			}
		}
		if len(sc.ledger.leases) == 0 && now-sc.ledger.lastUsed > idleScopeTTL {
			delete(s.scopes, name)
			continue
		}
		sc.heartbeats.start(now)
	}
	if len(s.scopes) == 0 && s.owner.client.breaker.open {
		s.owner.client.send(now, nil, nil, AppendCommand(nil, "PING"), true, func(_ time.Duration, _ Value, err error) {
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

// heartbeatEnded notes how a heartbeat went.
//
//go:noinline
func (s *Store) heartbeatEnded(err error) {
	if s.heartbeatErr = err; err != nil {
		s.OnFailure(err)
	}
}

// scopeName returns the name under which a plan's scope is counted. Tenants have one of their own.
func (s *Store) scopeName(name string) string {
	if s.fixedScope != "" && lb.IsOfTenants(name) {
		return lb.TenantsScope + s.fixedScope
	}
	return cmp.Or(s.fixedScope, name)
}

// scopeOf returns what the owner knows of a plan's scope.
func (s *Store) scopeOf(name string) *scope {
	name = s.scopeName(name)
	sc, ok := s.scopes[name]
	if !ok {
		sc = newScope(&s.owner, s.leases, name)
		sc.ledger.silence = func() time.Duration { return s.silence(sc) }
		sc.heartbeats.ended = s.heartbeatEnded
		s.scopes[name] = sc
	}
	return sc
}
