package health

import (
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
)

// forgetEjectionsAfter is how long an endpoint must be back before a success clears the count of its ejections.
const forgetEjectionsAfter = 5 * time.Minute

// ejection is when an endpoint was ejected. Each configuration decides how many failures an ejection takes and how long
// it lasts, so that one ejection may be in effect under some configurations only.
type ejection struct {
	from     time.Duration
	until    time.Duration // under the configuration that decided it
	times    int           // ejections in a row, this one included; each one lasts longer
	failures int           // score at the ejection; no effect under configurations that require more
}

// ejectedUntil returns until when the endpoint is ejected under the configuration, 0 if it is not.
func (e *ejection) ejectedUntil(cfg *Config) time.Duration {
	if e.times == 0 || cfg.ConsecutiveFailures <= 0 || cfg.ConsecutiveFailures > e.failures {
		return 0
	}
	return e.from + cfg.ejectionTime(e.times)
}

// CountEjected returns how many of the listed endpoints are ejected, each under the configuration that decided it: also
// those that are used all the same, because too many are.
func (h *Health) CountEjected(now time.Duration) (n int) {
	for _, e := range h.current {
		if now < e.until {
			n++
		}
	}
	return n
}

// IsEjected reports whether the endpoint is ejected, under any configuration.
func (h *Health) IsEjected(now time.Duration, addr string) bool {
	e := h.of(addr)
	return e != nil && now < e.until
}

// EjectedSince reports whether the endpoint is ejected under the configuration, and was not yet at the given time.
func (h *Health) EjectedSince(since, now time.Duration, addr string, cfg *Config) bool {
	e := h.of(addr)
	return e != nil && e.from > since && now < e.ejectedUntil(cfg)
}

// ejectionTime returns the duration of the nth ejection in a row.
func (cfg *Config) ejectionTime(n int) time.Duration {
	out := cfg.EjectionTime << min(n-1, 20)
	if cfg.MaxEjectionTime > 0 && (out > cfg.MaxEjectionTime || out <= 0) {
		return cfg.MaxEjectionTime
	}
	return out
}

// eject ejects the endpoint, or extends an ejection for configurations that require more failures.
func (h *Health) eject(now time.Duration, e *endpointHealth, failures int, cfg *Config) {
	if now >= e.until { // a new ejection, not an extended one
		e.times++
	}
	e.from, e.failures = now, failures
	e.until = max(e.until, now+cfg.ejectionTime(e.times))
	// One failure after the return is enough for the next ejection.
	e.suspicion = suspicion{score: float64(failures - 1), probation: true}
	h.invalidate()
	h.exportPending = true
	h.ejectionCount++
}

// EjectedEndpoint is an ejection that this VM has decided: after how many failures, and for how long.
type EjectedEndpoint struct {
	Addr     string
	Failures int
	For      time.Duration
}

// maxEjected is how many ejections TakeEjected returns at most.
const maxEjected = 10

// noteEjection keeps an ejection for TakeEjected.
func (h *Health) noteEjection(now time.Duration, addr string, e *endpointHealth) {
	if len(h.ejected) < maxEjected {
		h.ejected = append(h.ejected, EjectedEndpoint{addr, e.failures, e.until - now})
	}
}

// TakeEjected returns the first ejections that this VM has decided since the last call.
func (h *Health) TakeEjected() []EjectedEndpoint {
	taken := h.ejected
	h.ejected = nil
	return taken
}

// ejectionSize is the size in bytes of one entry of an export: address hash u64, from i64, until i64, times u32,
// failures u32, all little-endian.
const ejectionSize = 32

// Export merges the ejections that this VM has decided since the last export into shared, which contains those of all
// VMs, and reports whether it has changed. Ended ejections are dropped.
func (h *Health) Export(now time.Duration, shared []byte) ([]byte, bool) {
	if !h.exportPending {
		return shared, false
	}
	all := map[uint64]ejection{}
	for addr, e := range h.endpoints {
		if e.until > now {
			all[lb.EndpointHash(addr)] = e.ejection
		}
	}
	for hash, theirs := range decodeEjections(now, shared) {
		all[hash] = theirs.merge(all[hash])
	}
	out := make(wire.Writer, 0, len(all)*ejectionSize)
	for hash, ej := range all {
		out = out.Uint64(hash).Duration(ej.from).Duration(ej.until).Uint32(uint32(ej.times)).Uint32(uint32(ej.failures))
	}
	return out, true
}

// decodeEjections returns the ejections of an export that end after now, by address hash.
func decodeEjections(now time.Duration, shared []byte) map[uint64]ejection {
	all := map[uint64]ejection{}
	for r := wire.NewReader(shared); r.Len() >= ejectionSize; {
		hash := r.Uint64()
		e := ejection{
			from: r.Duration(), until: r.Duration(), times: int(r.Uint32()), failures: int(r.Uint32()),
		}
		if e.until > now && e.times > 0 {
			all[hash] = e
		}
	}
	return all
}

// merge returns the higher value of each field, for ejections of one endpoint that different VMs decided.
func (e ejection) merge(other ejection) ejection {
	return ejection{
		max(e.from, other.from), max(e.until, other.until), max(e.times, other.times), max(e.failures, other.failures),
	}
}

// ConfirmExport marks the ejections that Export returned as written.
func (h *Health) ConfirmExport() { h.exportPending = false }

// Import adopts the ejections of other VMs that end after now.
func (h *Health) Import(now time.Duration, shared []byte) {
	theirs := decodeEjections(now, shared)
	if len(theirs) == 0 {
		return
	}
	for addr, e := range h.endpoints {
		ej := theirs[lb.EndpointHash(addr)]
		if ej.merge(e.ejection) == e.ejection {
			continue
		}
		if now >= e.until { // its own ejection has ended
			e.ejection = ejection{}
		}
		e.ejection = ej.merge(e.ejection)
		e.score, e.probation = max(e.score, float64(ej.failures-1)), true
		h.invalidate()
	}
}
