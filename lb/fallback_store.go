package lb

import (
	"errors"
	"slices"
	"time"
)

// RemoteStore is a store that several gateways share, over a network that may fail.
type RemoteStore interface {
	Store
	// Ready says whether a reservation is worth trying: false while the backend is taken to be down.
	Ready(now time.Duration) bool
	// Adopt takes over a lease that was granted without the backend, to be counted there as soon as that can be
	// reached.
	Adopt(now time.Duration, id LeaseID, scope, addr string, tokens int64)
	// Expire fails what has got no answer in time, and returns the earliest deadline still to come, 0 for none.
	Expire(now time.Duration) time.Duration
	// Owners returns how many owners count there, over all gateways; 0 when that is not known.
	Owners() int
}

// FallbackStore is a store that counts in a remote store, and in the embedded store while that does not answer. The embedded
// store is told of every lease, so that it knows this gateway's own load at any time; leases that it grants alone are
// handed to the remote store once that is back.
type FallbackStore struct {
	// OnFallback, if set, is called for each reservation that the embedded store had to grant, with the reason.
	OnFallback func(err error)

	remote RemoteStore
	local  *MemStore
	// adopted are the leases granted without the remote store, which knows them by another id: it may still carry out
	// the reservation that it did not answer.
	adopted map[LeaseID]struct{}
	shares  sharedCaps
}

var _ Store = (*FallbackStore)(nil)

// ErrRemoteDown is why a reservation was not even tried remotely.
var ErrRemoteDown = errors.New("lb: the remote store is down")

// adoptedID is the id by which the remote store knows a lease that was granted without it. Owners count ids from 1, so
// the highest bit is free.
func adoptedID(id LeaseID) LeaseID { return id | 1<<63 }

// NewFallbackStore returns a store over both. They may be shared with other stores of its kind if no id is used in two of them.
func NewFallbackStore(remote RemoteStore, local *MemStore) *FallbackStore {
	return &FallbackStore{remote: remote, local: local, adopted: map[LeaseID]struct{}{}, OnFallback: func(error) {}}
}

// Reserve implements [Store].
func (l *FallbackStore) Reserve(now time.Duration, id LeaseID, p *Plan, done func(Grant, error)) {
	if _, ok := l.adopted[id]; ok {
		l.local.Reserve(now, id, p, done) // which has its grant
		return
	}
	if !l.remote.Ready(now) {
		l.fall(now, id, p, ErrRemoteDown, done)
		return
	}
	l.remote.Reserve(now, id, p, func(g Grant, err error) {
		switch {
		case err == nil:
			if !l.local.HasLease(id) {
				_ = l.local.CountAt(now, id, p.Scope, p.Candidates[g.Index].Addr, p.AddedTokens(g.Cached))
			}
			done(g, nil)
		case errors.Is(err, ErrFull), errors.Is(err, ErrReleased):
			done(Grant{}, err)
		default:
			l.fall(now, id, p, err, done)
		}
	})
}

// fall reserves in the embedded store.
func (l *FallbackStore) fall(now time.Duration, id LeaseID, p *Plan, why error, done func(Grant, error)) {
	l.OnFallback(why)
	own := *p
	own.Candidates = l.shares.of(p.Candidates, l.share(now))
	l.local.Reserve(now, id, &own, func(g Grant, err error) {
		if err == nil {
			l.adopted[id] = struct{}{}
			l.remote.Adopt(now, adoptedID(id), p.Scope, p.Candidates[g.Index].Addr, p.AddedTokens(g.Cached))
		}
		done(g, err)
	})
}

// share returns the part of all owners that are in this gateway, as far as the remote store has told.
func (l *FallbackStore) share(now time.Duration) float64 {
	all := l.remote.Owners()
	if all == 0 {
		return 1
	}
	own, err := l.local.Owners(now)
	if err != nil || own == 0 || own >= all {
		return 1
	}
	return float64(own) / float64(all)
}

// Amend implements [Store].
func (l *FallbackStore) Amend(now time.Duration, id LeaseID, addr string, tokens int64) {
	l.local.Amend(now, id, addr, tokens)
	l.remote.Amend(now, l.remoteID(id), addr, tokens)
}

// Release implements [Store].
func (l *FallbackStore) Release(now time.Duration, id LeaseID) {
	at := l.remoteID(id)
	delete(l.adopted, id)
	l.remote.Release(now, at)
	l.local.Release(now, id)
}

func (l *FallbackStore) remoteID(id LeaseID) LeaseID {
	if _, ok := l.adopted[id]; ok {
		return adoptedID(id)
	}
	return id
}

// ForgetPrompt implements [Store], for the store that has granted the lease.
func (l *FallbackStore) ForgetPrompt(now time.Duration, id LeaseID, p *Plan, addr string, n int) {
	l.granter(id).ForgetPrompt(now, id, p, addr, n)
}

// RecordPrompt implements [Store], for the store that has granted the lease.
func (l *FallbackStore) RecordPrompt(now time.Duration, id LeaseID, p *Plan, addr string) {
	l.granter(id).RecordPrompt(now, id, p, addr)
}

// granter returns the store that has granted the lease. What that has noted of the prompt, the other does not know.
func (l *FallbackStore) granter(id LeaseID) Store {
	if _, ok := l.adopted[id]; ok {
		return l.local
	}
	return l.remote
}

// Heartbeat implements [Store] for the remote store. The embedded one, which several of them may share, beats on its
// own.
func (l *FallbackStore) Heartbeat(now time.Duration) error { return l.remote.Heartbeat(now) }

// Expire fails the reservations that have got no answer in time, and returns the earliest deadline still to come, 0 for
// none.
func (l *FallbackStore) Expire(now time.Duration) time.Duration { return l.remote.Expire(now) }

// sharedCaps lowers caps to the part of them that falls to one gateway.
type sharedCaps struct{ lists derivedLists[float64] }

func (s *sharedCaps) of(cs []Candidate, share float64) []Candidate {
	if share >= 1 {
		return cs
	}
	return s.lists.get(cs, share, func(cs []Candidate) []Candidate {
		to := slices.Clone(cs)
		for i := range to {
			if c := &to[i]; c.Cap > 0 {
				c.Cap = max(1, int64(float64(c.Cap)*share))
			}
		}
		return to
	})
}
