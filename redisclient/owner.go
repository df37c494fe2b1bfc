package redisclient

import (
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
)

const (
	// dataTTL is how long a scope's data stay in Redis after the last heartbeat of any owner.
	dataTTL = time.Minute
	// maxCandidates is how many candidates a plan may have: a table has no more rows.
	maxCandidates = 65000
	// maxSteps is how many commands a heartbeat may take, or a search for unused rows, and maxCursor how many bytes the
	// cursor may have by which each goes on where the one before has ended.
	maxSteps, maxCursor = 1024, 20
)

// owner is what a store has in common for all its scopes: its name, its way to Redis, and its clock.
type owner struct {
	client    *client
	name      string
	ttl       time.Duration                   // see Options.TTL
	onGrant   func(owner uint64, news []byte) // see Store.OnGrant
	seq       uint64                          // counts what was sent and received: a logical clock that orders both
	undecided int                             // reservations without an answer that may wait
}

// cannotReserve returns why a reservation is not sent, nil if it is.
func (o *owner) cannotReserve(p *lb.Plan) error {
	switch {
	case p.HasNowhere():
		return lb.ErrFull
	case len(p.Candidates) > maxCandidates:
		return lb.ErrNoRoom
	case o.client.breaker.open:
		return ErrBreakerOpen
	}
	return nil
}

// place is where Redis has the data of one scope, as seen by one owner.
type place struct {
	*owner
	scope        string
	ofTenants    bool // see lb.IsOfTenants
	keys         Keys // Leases is the complete key of this owner
	node         clusterNode
	leasesPrefix string // the Leases prefix of all owners
	// silence returns in what time the owner is silent in the scope unless it polls before.
	silence func() time.Duration
	// passOn handles what a step of this owner has granted in the scope: to requests of its own, and of others.
	passOn func(now time.Duration, grants []byte)
}

// sendBackground sends a command that no request waits for, unless the breaker is open.
func (at *place) sendBackground(now time.Duration, sp *script, cmd []byte, done func(time.Duration, Value, error)) {
	at.seq++
	at.client.send(now, sp, &at.node, cmd, false, done)
}

// appendReserveKeys appends the keys that every reservation names, the last of them that of its list of candidates.
func (at *place) appendReserveKeys(b []byte, list string) []byte {
	return appendArg(appendArg(appendArg(b, at.keys.Table), at.keys.Leases), list)
}

// appendID appends a lease's id in the format of Redis: 8 bytes, little-endian.
func appendID(b []byte, id lb.LeaseID) []byte {
	var raw [8]byte
	wire.PutUint64(raw[:], 0, uint64(id))
	return appendArg(b, raw[:])
}
