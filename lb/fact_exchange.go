package lb

import (
	"time"

	"github.com/warmgate/warmgate/internal/wire"
)

// factSize is the size in bytes of one entry of an export: model u64, address hash u64, length i64 (0: there is no such
// model), from i64, until i64, all little-endian.
const factSize = 40

// maxSharedFacts is how many entries an export has at most: a gateway copies them at each look.
const maxSharedFacts = 512

// factKey is what an entry is of.
type factKey struct {
	model, endpoint uint64
	isLength        bool
}

// sharedFact is the rest of an entry.
type sharedFact struct {
	length int64
	patience
}

// Export merges what this VM has learned since the last export into shared, which contains the facts of all VMs, and
// reports whether it has changed. What is over is dropped.
func (f *ModelFacts) Export(now time.Duration, shared []byte) ([]byte, bool) {
	if !f.exportPending {
		return shared, false
	}
	all := decodeFacts(now, shared)
	add := func(key factKey, fact sharedFact) {
		if _, known := all[key]; fact.waits(now) && (known || len(all) < maxSharedFacts) {
			all[key] = fact.merge(all[key])
		}
	}
	for model, m := range f.models {
		for endpoint, e := range m.endpoints {
			add(factKey{model, endpoint, false}, sharedFact{0, e.absent})
			add(factKey{model, endpoint, true}, sharedFact{e.length, e.tooLong})
		}
	}
	out := make(wire.Writer, 0, len(all)*factSize)
	for key, fact := range all {
		out = out.Uint64(key.model).Uint64(key.endpoint).Uint64(uint64(fact.length)).
			Duration(fact.from).Duration(fact.until)
	}
	return out, true
}

// decodeFacts returns the facts of an export that are not over.
func decodeFacts(now time.Duration, shared []byte) map[factKey]sharedFact {
	all := map[factKey]sharedFact{}
	for r := wire.NewReader(shared); r.Len() >= factSize; {
		key := factKey{model: r.Uint64(), endpoint: r.Uint64()}
		fact := sharedFact{int64(r.Uint64()), patience{r.Duration(), r.Duration()}}
		if key.isLength = fact.length > 0; fact.waits(now) && fact.until-fact.from <= maxPatience && fact.length >= 0 {
			all[key] = fact
		}
	}
	return all
}

// merge returns the later of two facts, for a length the shorter one.
func (a sharedFact) merge(b sharedFact) sharedFact {
	if b.until > a.until {
		a.patience = b.patience
	}
	if b.length > 0 {
		a.length = min(a.length, b.length)
	}
	return a
}

// ConfirmExport marks what Export returned as written.
func (f *ModelFacts) ConfirmExport() { f.exportPending = false }

// Import adopts what other VMs have learned, unless this one has been served there since.
func (f *ModelFacts) Import(now time.Duration, shared []byte) {
	if len(shared) < factSize {
		return
	}
	for key, fact := range decodeFacts(now, shared) {
		f.activeUntil = max(f.activeUntil, fact.from+factsActive)
		m := f.models[key.model]
		if m == nil {
			m = f.model(fact.from, key.model)
		}
		e := m.endpoints[key.endpoint]
		if e == nil {
			if len(m.endpoints) >= maxFactEndpoints {
				continue
			}
			e = &modelFact{}
			m.endpoints[key.endpoint] = e
		}
		if e.servedAt >= fact.from {
			continue
		}
		p := &e.absent
		if key.isLength {
			p = &e.tooLong
			if e.length == 0 || fact.length < e.length {
				e.length = fact.length
			}
		}
		if fact.until > p.until {
			*p = fact.patience
		}
		m.until = max(m.until, p.until)
	}
}
