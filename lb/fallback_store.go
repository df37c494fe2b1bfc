package lb

import (
	"errors"
	"math"
	"slices"
	"time"
)

// RemoteStore is a store that several gateways share over a network.
type RemoteStore interface {
	Store
	TaskStore
	// Ready reports whether a reservation should be attempted: false while the backend is assumed to be down.
	Ready(now time.Duration) bool
	// Adopt takes over a lease that was granted without the backend. It is counted there as soon as the backend is
	// available.
	Adopt(now time.Duration, id LeaseID, scope, addr string, tokens int64)
	// Expire fails the reservations past their deadline, and returns the next deadline, 0 for none.
	Expire(now time.Duration) time.Duration
	// Owners returns the number of live owners over all gateways, 0 if unknown.
	Owners() int
}

// FallbackStore is a store that counts in a remote store, and in the embedded store while the remote one is
// unavailable. The embedded store counts every lease, so that it always knows this gateway's own load. Leases that it
// has granted are handed over to the remote store once that is back. For what happens when Redis answers late see
// redisclient/late.go.
type FallbackStore struct {
	// OnFallback is called for each reservation that falls back to the embedded store, with the reason.
	OnFallback func(err error)

	remote RemoteStore
	local  LocalStore
	// adopted contains the leases that were granted without the remote store. That store knows them by another id: it
	// may still carry out the reservation that it did not answer in time.
	adopted map[LeaseID]struct{}
	caps    shareOfCaps
	// remoteIDs are those by which the remote store knows requests other than by their own: see fallback_wait.go.
	remoteIDs map[LeaseID]LeaseID
	waits     map[LeaseID]*localWait
	returns   returns
	now       time.Duration // the latest that is known
}

var _ Store = (*FallbackStore)(nil)

// ErrRemoteDown is the reason for a fallback without an attempt, while the remote store is not ready.
var ErrRemoteDown = errors.New("lb: the remote store is down")

// adoptedID returns the id by which the remote store knows a lease that was granted without it. Owners number leases
// from 1, so the highest bit is free.
func adoptedID(id LeaseID) LeaseID { return id | 1<<63 }

// NewFallbackStore returns a store over both. Several such stores may share one remote or embedded store if no lease id
// is used in two of them.
func NewFallbackStore(remote RemoteStore, local LocalStore) *FallbackStore {
	return &FallbackStore{
		remote: remote, local: local, adopted: map[LeaseID]struct{}{}, OnFallback: func(error) {},
		remoteIDs: map[LeaseID]LeaseID{}, waits: map[LeaseID]*localWait{},
	}
}

// Reserve implements [Store].
func (s *FallbackStore) Reserve(now time.Duration, id LeaseID, p *Plan, done func(Grant, error)) {
	if _, ok := s.adopted[id]; ok {
		s.local.Reserve(now, id, p, done) // returns its current grant
		return
	}
	if p.Wait.Waits() {
		s.reserveWaiting(now, id, p, done)
		return
	}
	if !s.remote.Ready(now) {
		s.fallBack(now, id, p, ErrRemoteDown, done)
		return
	}
	s.remote.Reserve(now, id, p, func(g Grant, err error) {
		switch {
		case err == nil:
			s.mirror(now, id, p, g)
			done(g, nil)
		case isRefusal(err):
			done(g, err)
		default:
			s.fallBack(now, id, p, err, done)
		}
	})
}

// mirror counts a grant of the remote store in the embedded one.
func (s *FallbackStore) mirror(now time.Duration, id LeaseID, p *Plan, g Grant) {
	switch {
	case s.local.HasLease(id):
	case p.HasBudget():
		own := *p
		own.Budget.Limits = shareOfLimits(p.Budget.Limits, s.ownerShare(now))
		_ = s.local.CountBudget(now, id, &own, g.Index)
	default:
		_ = s.local.CountAt(now, id, p.Scope, p.Candidates[g.Index].Addr, p.AddedTokens(g.Cached))
	}
}

// isRefusal reports whether the error is an answer of a store that works.
func isRefusal(err error) bool {
	for _, refusal := range []error{
		ErrFull, ErrOverBudget, ErrReleased, ErrQueueFull, ErrEvicted, ErrHopeless, ErrWaitOver,
	} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}

// fallBack reserves in the embedded store, and has the remote store adopt the lease later.
func (s *FallbackStore) fallBack(now time.Duration, id LeaseID, p *Plan, why error, done func(Grant, error)) {
	s.OnFallback(why)
	own := *p
	share := s.ownerShare(now)
	own.List = s.caps.apply(now, p.List, share)
	own.Budget.Limits = shareOfLimits(p.Budget.Limits, share)
	s.local.Reserve(now, id, &own, func(g Grant, err error) {
		if err == nil {
			s.adopted[id] = struct{}{}
			s.remote.Adopt(max(now, s.now), adoptedID(id), p.Scope, p.Candidates[g.Index].Addr, p.AddedTokens(g.Cached))
		}
		done(g, err)
	})
}

// ownerShare returns this gateway's share of all owners, 1 if their number is unknown.
func (s *FallbackStore) ownerShare(now time.Duration) float64 {
	all := s.remote.Owners()
	if all == 0 {
		return 1
	}
	own, err := s.local.Owners(now)
	if err != nil || own == 0 || own >= all {
		return 1
	}
	return float64(own) / float64(all)
}

// Amend implements [Store].
func (s *FallbackStore) Amend(now time.Duration, id LeaseID, addr string, tokens int64) {
	s.local.Amend(now, id, addr, tokens)
	s.remote.Amend(now, s.remoteID(id), addr, tokens)
}

// NoteServed implements [Store]. Only the store in whose queue the request has waited has a use for it.
func (s *FallbackStore) NoteServed(id LeaseID, tokens int64) {
	s.local.NoteServed(id, tokens)
	s.remote.NoteServed(s.remoteID(id), tokens)
}

// Release implements [Store].
func (s *FallbackStore) Release(now time.Duration, id LeaseID) {
	remoteID := s.remoteID(id)
	delete(s.adopted, id)
	delete(s.remoteIDs, id)
	delete(s.waits, id)
	s.remote.Release(now, remoteID)
	s.local.Release(now, id)
}

// remoteID returns the id by which the remote store knows the lease.
func (s *FallbackStore) remoteID(id LeaseID) LeaseID {
	if _, ok := s.adopted[id]; ok {
		return adoptedID(id)
	}
	if other, ok := s.remoteIDs[id]; ok {
		return other
	}
	return id
}

// ForgetPrompt implements [Store], for the store that has granted the lease.
func (s *FallbackStore) ForgetPrompt(now time.Duration, id LeaseID, p *Plan, addr string, n int) {
	s.granter(id).ForgetPrompt(now, id, p, addr, n)
}

// RecordPrompt implements [Store], for the store that has granted the lease.
func (s *FallbackStore) RecordPrompt(now time.Duration, id LeaseID, p *Plan, addr string) {
	s.granter(id).RecordPrompt(now, id, p, addr)
}

// granter returns the store that has granted the lease. Only that one has recorded the prompt.
func (s *FallbackStore) granter(id LeaseID) Store {
	if _, ok := s.adopted[id]; ok {
		return s.local
	}
	return s.remote
}

// Waits implements [Store], for either store.
func (s *FallbackStore) Waits(id LeaseID) bool {
	return s.local.Waits(id) || s.remote.Waits(s.remoteID(id))
}

// Queue implements [Store]: of the remote store, and of the embedded one while the remote one is not ready.
func (s *FallbackStore) Queue(now time.Duration, scope string) QueueStats {
	if s.remote.Ready(now) {
		return s.remote.Queue(now, scope)
	}
	return s.local.Queue(now, scope)
}

// Heartbeat implements [Store] for the remote store. The embedded store, which several fallback stores may share, sends
// its own.
func (s *FallbackStore) Heartbeat(now time.Duration) error { return s.remote.Heartbeat(now) }

// Expire fails the reservations past their deadline, and returns the next deadline, 0 for none.
func (s *FallbackStore) Expire(now time.Duration) time.Duration {
	s.now = now
	return s.remote.Expire(now)
}

// shareOfCaps reduces caps to this gateway's share of them, at least 1: without the remote store each gateway must stay
// below its part, so that all together stay below the cap.
type shareOfCaps struct{ lists DerivedLists }

func (s *shareOfCaps) apply(now time.Duration, l List, share float64) List {
	if share >= 1 {
		return l
	}
	return s.lists.Get(now, l, math.Float64bits(share), func(cs []Candidate) []Candidate {
		out := slices.Clone(cs)
		for i := range out {
			c := &out[i]
			c.Cap, c.TokenCap = partOf(c.Cap, share), partOf(c.TokenCap, share)
		}
		return out
	})
}

// partOf returns a share of a cap, 0 if there is no cap.
func partOf(limit int64, share float64) int64 {
	if limit <= 0 {
		return limit
	}
	return max(1, int64(float64(limit)*share))
}
