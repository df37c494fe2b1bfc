package memstore

import (
	"time"

	"github.com/warmgate/warmgate/lb"
)

// ledger is what this owner holds in the tables of its scopes, and how it changes these.
type ledger struct {
	kv       lb.KV
	self     *presence
	tables   *tables
	requests *requests
	stats    *Stats
	wake     func(owners []uint64) // has other owners look for what they were granted

	scopes map[string]*scope
	draft  draft // reused by swap
	// reserved counts the reservations since the last flush; busy is whether there were many before that.
	reserved int
	busy     bool
}

// scope returns what this owner knows of the scope.
func (l *ledger) scope(name string) *scope {
	sc, ok := l.scopes[name]
	if !ok {
		sc = &scope{name: name, slot: -1, held: newCheckpoint(l.self.owner), waiters: map[lb.LeaseID]*waiter{}}
		l.scopes[name] = sc
	}
	return sc
}

// discard forgets a scope for which there was no slot.
func (l *ledger) discard(sc *scope) {
	if sc.slot < 0 {
		delete(l.scopes, sc.name)
	}
}

// lookup returns the scope's table, nil if it has none.
func (l *ledger) lookup(scope string) (table, error) {
	before := -1
	if sc, ok := l.scopes[scope]; ok {
		before = sc.slot
	}
	return l.tables.lookup(scope, before)
}

// budgeted returns what this owner knows of the scope, nil if that has no budgets.
func (l *ledger) budgeted(name string) (*scope, error) {
	if sc, ok := l.scopes[name]; ok && sc.slot >= 0 {
		return sc, nil
	}
	if t, err := l.lookup(name); err != nil || t == nil || !t.hasBudgets() {
		return nil, err
	}
	return l.scope(name), nil
}

// maxPending bounds the pending steps of a scope, so that all steps of one swap fit into the log.
const maxPending = logLength - 2

// busyAbove is the number of reservations between two calls of flush above which a worker is busy.
const busyAbove = 100

// defers reports whether an amendment or a release should wait for the next swap of the scope and be written with that.
// A worker that makes more than a thousand reservations a second makes half as many swaps this way, and writes a
// release about a millisecond later.
// Where requests may wait for what is released, nothing is deferred.
func (l *ledger) defers(sc *scope) bool { return l.busy && !sc.queues && len(sc.pending) < maxPending }

// flush writes the pending steps.
func (l *ledger) flush(now time.Duration) {
	l.busy = l.reserved > busyAbove
	l.reserved = 0
	for _, sc := range l.scopes {
		if len(sc.pending)+len(sc.corrections) > 0 {
			l.sync(now, sc)
		}
	}
}

// sync makes a swap without a step of its own, for what each swap does besides: it writes the pending steps and makes
// the owner a member of the table. If it fails, the next swap does the same.
func (l *ledger) sync(now time.Duration, sc *scope) {
	_ = l.swap(now, sc, func(*draft) error { return nil })
}

// register renews the owner in the owner directory: see presence.register. Where it was not there, it has to write all
// its checkpoints again.
func (l *ledger) register(now time.Duration) (kept bool, err error) {
	kept, err = l.self.register(now)
	if err != nil || kept {
		return kept, err
	}
	for _, sc := range l.scopes {
		sc.written = false
	}
	return false, nil
}

// rejoin makes the owner a member again of each table in which it holds leases, for the case that they were returned
// because its heartbeats were late. If all is true it has lost its index, and so it has to write all its checkpoints
// again. Scopes without leases whose slot was assigned to another scope are forgotten.
func (l *ledger) rejoin(now time.Duration, all bool) {
	for name, sc := range l.scopes {
		slot, t, _, err := l.tables.find(name, sc.slot)
		holds := !sc.held.isEmpty() || len(sc.pending) > 0 || len(sc.waiters) > 0 || sc.left
		switch {
		case err != nil:
		case !holds && (t == nil || slot != sc.slot):
			delete(l.scopes, name)
		case all || t == nil || slot != sc.slot || holds && t.memberOf(l.self.owner) < 0:
			l.sync(now, sc)
		}
	}
}
