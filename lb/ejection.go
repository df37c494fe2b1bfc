package lb

import (
	"encoding/binary"
	"time"
)

// forgetEjectionsAfter is how long an endpoint must have stayed in before its earlier ejections are forgotten.
const forgetEjectionsAfter = 5 * time.Minute

// ejection is when an endpoint was ejected, and for what. Each configuration has its own say on how many failures that
// takes and on how long it lasts.
type ejection struct {
	from     time.Duration
	until    time.Duration // by the configuration that ejected it
	times    int           // ejections in a row so far: the next one lasts longer
	failures int           // that spoke against it: no ejection where that many are not enough
}

// ejectedUntil returns until when the endpoint is ejected under the configuration, 0 if it is not.
func (e *ejection) ejectedUntil(cfg *HealthConfig) time.Duration {
	if e.times == 0 || cfg.ConsecutiveFailures <= 0 || cfg.ConsecutiveFailures > e.failures {
		return 0
	}
	return e.from + cfg.ejectionTime(e.times)
}

// ejectionTime returns how long an endpoint is out that is ejected for the nth time.
func (h *HealthConfig) ejectionTime(n int) time.Duration {
	out := h.EjectionTime << min(n-1, 20)
	if h.MaxEjectionTime > 0 && (out > h.MaxEjectionTime || out <= 0) {
		return h.MaxEjectionTime
	}
	return out
}

func (h *Health) eject(now time.Duration, t *endpointHealth, failures int, cfg *HealthConfig) {
	if now >= t.until { // else it goes on, for configurations that take more failures
		t.times++
	}
	t.from, t.failures = now, failures
	t.until = max(t.until, now+cfg.ejectionTime(t.times))
	// One more failure after the return is enough to go again.
	t.suspicion = suspicion{score: float64(failures - 1), probation: true}
	h.invalidate()
	h.exportPending = true
	h.ejectionCount++
}

// ejectionSize is one entry of an export: address hash u64, from i64, until i64, times u32, failures u32.
const ejectionSize = 32

// Export merges the ejections decided here since the last export into shared, which holds those of all VMs, and says
// whether it has changed. What has ended is dropped.
func (h *Health) Export(now time.Duration, shared []byte) ([]byte, bool) {
	if !h.exportPending {
		return shared, false
	}
	ours := map[uint64]ejection{}
	for addr, t := range h.endpoints {
		if t.until > now {
			ours[hashAddr(addr)] = t.ejection
		}
	}
	for hash, theirs := range decodeEjections(now, shared) {
		ours[hash] = theirs.merge(ours[hash])
	}
	out := make([]byte, 0, len(ours)*ejectionSize)
	for hash, e := range ours {
		out = binary.LittleEndian.AppendUint64(out, hash)
		out = binary.LittleEndian.AppendUint64(out, uint64(e.from))
		out = binary.LittleEndian.AppendUint64(out, uint64(e.until))
		out = binary.LittleEndian.AppendUint32(out, uint32(e.times))
		out = binary.LittleEndian.AppendUint32(out, uint32(e.failures))
	}
	return out, true
}

// decodeEjections returns the ejections of an export that last beyond now.
func decodeEjections(now time.Duration, shared []byte) map[uint64]ejection {
	all := map[uint64]ejection{}
	for ; len(shared) >= ejectionSize; shared = shared[ejectionSize:] {
		e := ejection{
			from:     time.Duration(binary.LittleEndian.Uint64(shared[8:])),
			until:    time.Duration(binary.LittleEndian.Uint64(shared[16:])),
			times:    int(binary.LittleEndian.Uint32(shared[24:])),
			failures: int(binary.LittleEndian.Uint32(shared[28:])),
		}
		if e.until > now && e.times > 0 {
			all[binary.LittleEndian.Uint64(shared)] = e
		}
	}
	return all
}

// merge returns the ejection with what another VM has decided of the same endpoint.
func (e ejection) merge(other ejection) ejection {
	return ejection{
		max(e.from, other.from), max(e.until, other.until), max(e.times, other.times), max(e.failures, other.failures),
	}
}

// ConfirmExport confirms that what Export returned was written.
func (h *Health) ConfirmExport() { h.exportPending = false }

// Import takes over the ejections that other VMs decided and that last beyond now.
func (h *Health) Import(now time.Duration, shared []byte) {
	theirs := decodeEjections(now, shared)
	if len(theirs) == 0 {
		return
	}
	for addr, t := range h.endpoints {
		e := theirs[hashAddr(addr)]
		if e.from <= t.from && e.until <= t.until {
			continue
		}
		if now >= t.until { // what ended counts no more
			t.ejection = ejection{}
		}
		t.ejection = e.merge(t.ejection)
		t.score, t.probation = max(t.score, float64(e.failures-1)), true
		h.invalidate()
	}
}
