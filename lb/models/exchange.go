package models

import (
	"time"

	"github.com/warmgate/warmgate/internal/wire"
)

// factSize is the size in bytes of one entry of an export: model u64, address hash u64, length i64 (0: there is no such
// model), from i64, until i64, when the model was last served i64, the longest prompt that was i64, all little-endian.
const factSize = 56

// maxSharedFacts is how many entries an export has at most: a gateway copies them at each look.
const maxSharedFacts = 512

// sharedFact is one entry.
type sharedFact struct {
	model, endpoint uint64
	length          int64
	patience
	servedAt time.Duration
	longest  int64
}

// append appends the entry to an export. It is not inlined, for the size of the artifacts.
//
//go:noinline
func (s *sharedFact) append(out wire.Writer) wire.Writer {
	for _, v := range [...]uint64{
		s.model, s.endpoint, uint64(s.length), uint64(s.from), uint64(s.until), uint64(s.servedAt), uint64(s.longest),
	} {
		out = out.Uint64(v)
	}
	return out
}

// readFact reads an entry, and reports whether it is not over.
func readFact(now time.Duration, r *wire.Reader[[]byte]) (s sharedFact, counts bool) {
	var v [factSize / 8]uint64
	for i := range v {
		v[i] = r.Uint64()
	}
	s = sharedFact{
		v[0], v[1], int64(v[2]), patience{time.Duration(v[3]), time.Duration(v[4])}, time.Duration(v[5]), int64(v[6]),
	}
	return s, s.waits(now) && s.until-s.from <= maxPatience && s.length >= 0
}

// of returns the patience of the fact that the entry is of.
func (s *sharedFact) of(e *modelFact) *patience {
	if s.length > 0 {
		return &e.tooLong
	}
	return &e.absent
}

// Export merges what this VM has learned since the last export into shared, which contains the facts of all VMs, and
// reports whether it has changed. What is over is dropped. It is called after Import.
func (f *Facts) Export(now time.Duration, shared []byte) ([]byte, bool) {
	if !f.exportPending {
		return shared, false
	}
	var out wire.Writer
	add := func(s sharedFact) {
		if s.waits(now) && len(out) < maxSharedFacts*factSize {
			out = s.append(out)
		}
	}
	for _, m := range f.models {
		for _, e := range m.endpoints {
			add(sharedFact{m.id, e.endpoint, 0, e.absent, m.servedAt, m.longest})
			if e.length > 0 {
				add(sharedFact{m.id, e.endpoint, e.length, e.tooLong, m.servedAt, m.longest})
			}
		}
	}
	for r := wire.NewReader(shared); r.Len() >= factSize; {
		s, counts := readFact(now, &r)
		if m := f.find(s.model); counts && m != nil {
			e := m.find(s.endpoint)
			counts = e == nil || s.of(e).until < s.until // else it was written above
		}
		if counts {
			add(s)
		}
	}
	return out, true
}

// ConfirmExport marks what Export returned as written.
func (f *Facts) ConfirmExport() { f.exportPending = false }

// Import adopts what other VMs have learned, unless this one has been served there since.
func (f *Facts) Import(now time.Duration, shared []byte) {
	for r := wire.NewReader(shared); r.Len() >= factSize; {
		s, counts := readFact(now, &r)
		if !counts {
			continue
		}
		m, e := f.at(s.from, s.model, s.endpoint)
		if e == nil || e.servedAt >= s.from {
			continue
		}
		if s.length > 0 && (e.length == 0 || s.length < e.length) {
			e.length = s.length
		}
		if p := s.of(e); s.until > p.until {
			*p = s.patience
		}
		m.until = max(m.until, s.until)
		m.servedAt, m.longest = max(m.servedAt, min(s.servedAt, now)), max(m.longest, s.longest)
		if m.divided(now) {
			f.readUntil = max(f.readUntil, s.from+factsActive)
		}
	}
}
