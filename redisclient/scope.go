package redisclient

import (
	"time"

	"github.com/warmgate/warmgate/lb"
)

// scope is what this owner knows about one scope, and does there.
type scope struct {
	ledger       ledger
	lists        candidateLists
	composer     composer
	reservations reservations
	room         waitingRoom
	heartbeats   heartbeats
}

// newScope returns a scope of the owner in which it has no lease. The index has those of all its scopes.
func newScope(o *owner, index map[lb.LeaseID]*lease, name string) *scope {
	k := KeysOf(name)
	sc := &scope{}
	sc.ledger = ledger{
		place: place{owner: o, scope: name, ofTenants: lb.IsOfTenants(name), keys: k, leasesPrefix: k.Leases},
		index: index, drained: true,
		leases: map[lb.LeaseID]*lease{}, tombstones: map[lb.LeaseID]time.Duration{},
		waiters: map[lb.LeaseID]*waiter{}, unrefunded: map[lb.LeaseID]*reservation{},
		asserted: sc.room.sendNext,
	}
	at := &sc.ledger.place
	at.keys.Leases += o.name
	at.passOn = sc.room.passOn
	sc.lists = candidateLists{at: at}
	sc.composer = composer{at: at, lists: &sc.lists}
	sc.reservations = reservations{
		ledger: &sc.ledger, lists: &sc.lists, pages: &sc.composer.pages, room: &sc.room,
	}
	sc.room = waitingRoom{ledger: &sc.ledger, composer: &sc.composer, reservations: &sc.reservations}
	sc.heartbeats = heartbeats{ledger: &sc.ledger, lists: &sc.lists, room: &sc.room}
	return sc
}
