package lb

import (
	"encoding/binary"
	"time"
)

// forgiveAfter is how long an endpoint must have stayed in before its earlier ejections are forgotten.
const forgiveAfter = 5 * time.Minute

func (h *Health) eject(now time.Duration, t *tracked, cfg *HealthConfig) {
	out := cfg.EjectionTime << min(t.ejections, 20)
	if cfg.MaxEjectionTime > 0 && (out > cfg.MaxEjectionTime || out <= 0) {
		out = cfg.MaxEjectionTime
	}
	t.ejections++
	t.until = now + out
	// One more failure after the return is enough to go again.
	t.suspicion = suspicion{score: float64(cfg.ConsecutiveFailures - 1), probation: true}
	t.since, t.slow = t.until, true
	h.outdate()
	h.changed = true
	h.ejected++
}

// ejectionSize is one entry of an export: address hash u64, until i64, ejections u32, failures u32: how many were
// enough, less one.
const ejectionSize = 24

// Export merges the ejections decided here since the last export into shared, which holds those of all VMs, and says
// whether it has changed. What has ended is dropped.
func (h *Health) Export(now time.Duration, shared []byte) ([]byte, bool) {
	if !h.changed {
		return shared, false
	}
	ours := map[uint64]*tracked{}
	for addr, t := range h.tracked {
		if t.until > now {
			ours[hashAddr(addr)] = t
		}
	}
	out := make([]byte, 0, len(shared)+ejectionSize)
	for ; len(shared) >= ejectionSize; shared = shared[ejectionSize:] {
		until := time.Duration(binary.LittleEndian.Uint64(shared[8:]))
		if t := ours[binary.LittleEndian.Uint64(shared)]; until > now && (t == nil || until > t.until) {
			out = append(out, shared[:ejectionSize]...)
			delete(ours, binary.LittleEndian.Uint64(shared))
		}
	}
	for hash, t := range ours {
		out = binary.LittleEndian.AppendUint64(out, hash)
		out = binary.LittleEndian.AppendUint64(out, uint64(t.until))
		out = binary.LittleEndian.AppendUint32(out, uint32(t.ejections))
		out = binary.LittleEndian.AppendUint32(out, uint32(max(0, t.score)))
	}
	return out, true
}

// Exported confirms that what Export returned was written.
func (h *Health) Exported() { h.changed = false }

// Import takes over the ejections that other VMs decided and that last beyond now.
func (h *Health) Import(now time.Duration, shared []byte) {
	theirs := map[uint64][]byte{}
	for ; len(shared) >= ejectionSize; shared = shared[ejectionSize:] {
		if time.Duration(binary.LittleEndian.Uint64(shared[8:])) > now {
			theirs[binary.LittleEndian.Uint64(shared)] = shared
		}
	}
	if len(theirs) == 0 {
		return
	}
	for addr, t := range h.tracked {
		e := theirs[hashAddr(addr)]
		if e == nil {
			continue
		}
		if until := time.Duration(binary.LittleEndian.Uint64(e[8:])); until > t.until {
			t.until, t.ejections = until, int(binary.LittleEndian.Uint32(e[16:]))
			t.since, t.slow = until, true
			t.score, t.probation = max(t.score, float64(binary.LittleEndian.Uint32(e[20:]))), true
			h.outdate()
		}
	}
}
