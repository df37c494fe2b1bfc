package lb

import (
	"encoding/binary"
	"math"
	"time"
)

const (
	// shareWindow is the time over which shares of requests are taken, in slots of shareSlot.
	shareSlotTime = time.Second
	shareSlots    = 10
)

// RequestShares counts where the requests of one cluster went of late, over all workers of a gateway. Each VM has one per
// cluster; they add up what they have counted by Export and Import.
type RequestShares struct {
	all     [shareSlots]shareCount // what all VMs have published, this one included
	own     [shareSlots]shareCount // what this one has counted and not published yet
	limited bool                   // a limit is in force
	pool    listPool               // lists of those that are within their share

	sweptSlot uint32 // slot in which those that are not used were last forgotten
}

// shareCount is what was counted in one slot of time.
type shareCount struct {
	slot  uint32
	picks map[uint64]uint32 // by the hash of the endpoint's address
}

// NewRequestShares returns the shares of a cluster that has had no requests.
func NewRequestShares() *RequestShares { return &RequestShares{} }

func shareSlotAt(now time.Duration) uint32 { return uint32(now / shareSlotTime) }

// Limited says whether a limit is in force, so that requests are counted.
func (s *RequestShares) Limited() bool { return s.limited }

// Pending says whether there is something to export.
func (s *RequestShares) Pending() bool {
	for i := range s.own {
		if len(s.own[i].picks) > 0 {
			return true
		}
	}
	return false
}

// Count counts a request.
func (s *RequestShares) Count(now time.Duration, addr string) {
	if s.limited {
		s.own[shareSlotAt(now)%shareSlots].add(shareSlotAt(now), hashAddr(addr), 1)
	}
}

// add counts n requests in the slot, and forgets what was counted a window before.
func (c *shareCount) add(slot uint32, endpoint uint64, n uint32) {
	if c.slot != slot || c.picks == nil {
		if c.picks != nil && int32(slot-c.slot) < 0 {
			return
		}
		c.slot, c.picks = slot, map[uint64]uint32{}
	}
	c.picks[endpoint] += n
}

// within returns the candidates that may get one more request: those whose share of all requests in the window, that
// one included, is no more than the limit. If none may, all may. The list is shared, and the same as before while its
// content is.
func (s *RequestShares) within(now time.Duration, limit float64, cs []Candidate) []Candidate {
	if limit <= 0 || limit >= 1 || len(cs) == 0 {
		return cs
	}
	s.limited = true
	sums, total := s.sums(now)
	most := uint32(math.Ceil(limit * float64(total+1)))
	within := make([]Candidate, 0, len(cs))
	for i := range cs {
		if sums[hashAddr(cs[i].Addr)]+1 <= most {
			within = append(within, cs[i])
		}
	}
	if len(within) == 0 || len(within) == len(cs) {
		return cs
	}
	if slot := shareSlotAt(now); slot != s.sweptSlot {
		s.pool.sweep(now)
		s.sweptSlot = slot
	}
	return s.pool.intern(now, within)
}

// sums adds up the window.
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

// shareEntry is one entry of an export: slot u32, endpoint u64, picks u32.
const shareEntry = 16

// Export returns what all VMs have counted, as shared has it, with what this one has counted since the last export.
func (s *RequestShares) Export(now time.Duration, shared []byte) (all []byte) {
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
	for i := range sum {
		for endpoint, n := range sum[i].picks {
			all = binary.LittleEndian.AppendUint32(all, sum[i].slot)
			all = binary.LittleEndian.AppendUint64(all, endpoint)
			all = binary.LittleEndian.AppendUint32(all, n)
		}
	}
	return all
}

// ConfirmExport confirms that what Export returned was written.
func (s *RequestShares) ConfirmExport(all []byte) {
	s.own = [shareSlots]shareCount{}
	s.Import(all)
}

// Import takes over what all VMs have counted.
func (s *RequestShares) Import(shared []byte) {
	s.all = [shareSlots]shareCount{}
	for ; len(shared) >= shareEntry; shared = shared[shareEntry:] {
		slot := binary.LittleEndian.Uint32(shared)
		s.all[slot%shareSlots].add(slot, binary.LittleEndian.Uint64(shared[4:]), binary.LittleEndian.Uint32(shared[12:]))
	}
}
