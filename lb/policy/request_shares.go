package policy

import (
	"math"
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
)

const (
	// Shares of requests are taken over a window of shareSlots slots of shareSlotTime.
	shareSlotTime = time.Second
	shareSlots    = 10
)

// RequestShares counts where the requests of one cluster went in the last 10 s, over all workers of a gateway, and
// limits the share of each endpoint (`rate_limit`). Each VM has one per cluster; Export and Import add up their counts.
type RequestShares struct {
	all     [shareSlots]shareCount // published by all VMs, this one included
	own     [shareSlots]shareCount // counted here, not published yet
	limited bool
	latest  map[uint64]uint32 // slot of the latest request counted here, by the hash of the address; nil: not followed
}

// shareCount is the requests of one slot.
type shareCount struct {
	slot  uint32            // number of the slot since the epoch
	picks map[uint64]uint32 // requests by the hash of the endpoint's address
}

// NewRequestShares returns the shares of a cluster without requests.
func NewRequestShares() *RequestShares { return &RequestShares{} }

func shareSlotAt(now time.Duration) uint32 { return uint32(now / shareSlotTime) }

// Limited reports whether any policy of the cluster has a limit, so that requests are counted.
func (s *RequestShares) Limited() bool { return s.limited }

// Pending reports whether there is something to export.
func (s *RequestShares) Pending() bool {
	for i := range s.own {
		if len(s.own[i].picks) > 0 {
			return true
		}
	}
	return false
}

// Count counts a request. Without a limit it has no effect.
func (s *RequestShares) Count(now time.Duration, addr string) {
	if s.limited {
		endpoint := lb.EndpointHash(addr)
		s.own[shareSlotAt(now)%shareSlots].add(shareSlotAt(now), endpoint, 1)
		if s.latest != nil {
			s.latest[endpoint] = shareSlotAt(now)
		}
	}
}

// add counts n requests in a slot. It replaces the counts of an earlier slot, and ignores requests in one.
func (c *shareCount) add(slot uint32, endpoint uint64, n uint32) {
	if c.slot != slot || c.picks == nil {
		if c.picks != nil && int32(slot-c.slot) < 0 {
			return
		}
		c.slot, c.picks = slot, map[uint64]uint32{}
	}
	c.picks[endpoint] += n
}

// within returns the candidates whose share of the requests in the window, with one more request for them, is within
// the limit; all candidates if there are none. A limit of 0, or from 1 on, is none.
func (s *RequestShares) within(now time.Duration, limit float64, cs []lb.Candidate) []lb.Candidate {
	if limit <= 0 || limit >= 1 || len(cs) == 0 {
		return cs
	}
	s.limited = true
	sums, total := s.sums(now)
	maxPicks := uint32(math.Ceil(limit * float64(total+1)))
	within := make([]lb.Candidate, 0, len(cs))
	for i := range cs {
		if sums[lb.EndpointHash(cs[i].Addr)]+1 <= maxPicks {
			within = append(within, cs[i])
		}
	}
	if len(within) == 0 || len(within) == len(cs) {
		return cs
	}
	return within
}

// inFront returns the candidates that are within the limit and, if there are caps, the others behind them.
func (s *RequestShares) inFront(now time.Duration, limit float64, l lb.List) lb.List {
	within := s.within(now, limit, l.Candidates)
	if len(within) == len(l.Candidates) {
		return l
	}
	return lb.NewList(withSpares(within, l.Candidates))
}

// follow has requests counted without a limit, and kept when the latest of this VM was, for idle.
func (s *RequestShares) follow() {
	s.limited = true
	if s.latest == nil {
		s.latest = map[uint64]uint32{}
	}
}

// idle reports for each candidate whether it got no request of this VM in the last d. What others send there says
// nothing: their latencies are not known here.
func (s *RequestShares) idle(now, d time.Duration, cs []lb.Candidate) []bool {
	idle := make([]bool, len(cs))
	for i := range cs {
		slot, counted := s.latest[lb.EndpointHash(cs[i].Addr)]
		idle[i] = !counted || shareSlotAt(now)-slot > shareSlotAt(d)
	}
	return idle
}

// sums returns the requests in the window, by endpoint and in total.
func (s *RequestShares) sums(now time.Duration) (by map[uint64]uint32, total uint32) {
	by = map[uint64]uint32{}
	for _, counts := range [2]*[shareSlots]shareCount{&s.all, &s.own} {
		for i := range counts {
			if shareSlotAt(now)-counts[i].slot >= shareSlots {
				continue
			}
			for endpoint, n := range counts[i].picks {
				by[endpoint] += n
				total += n
			}
		}
	}
	return by, total
}

// shareEntry is the size in bytes of one entry of an export: slot u32, endpoint u64, picks u32, all little-endian.
const shareEntry = 16

// Export adds what this VM has counted since the last export to shared, which contains the counts of all VMs.
func (s *RequestShares) Export(now time.Duration, shared []byte) []byte {
	s.Import(shared)
	var sum [shareSlots]shareCount
	for _, counts := range [2]*[shareSlots]shareCount{&s.all, &s.own} {
		for i := range counts {
			for endpoint, n := range counts[i].picks {
				if shareSlotAt(now)-counts[i].slot < shareSlots {
					sum[i].add(counts[i].slot, endpoint, n)
				}
			}
		}
	}
	var out wire.Writer
	for i := range sum {
		for endpoint, n := range sum[i].picks {
			out = out.Uint32(sum[i].slot).Uint64(endpoint).Uint32(n)
		}
	}
	return out
}

// ConfirmExport records that the result of Export was written to shared memory.
func (s *RequestShares) ConfirmExport(all []byte) {
	s.own = [shareSlots]shareCount{}
	s.Import(all)
}

// Import adopts the counts of all VMs.
func (s *RequestShares) Import(shared []byte) {
	s.all = [shareSlots]shareCount{}
	for r := wire.NewReader(shared); r.Len() >= shareEntry; {
		slot := r.Uint32()
		s.all[slot%shareSlots].add(slot, r.Uint64(), r.Uint32())
	}
}
