package memstore

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// Index is a prefix index in a part of shared memory of its own, with the pages and the rules of that of the stores: it
// records who has which prefix blocks, for all workers of a gateway. Whoever that is has a tag, as endpoints have
// ([lb.EndpointTag]).
type Index struct{ pages prefixIndex }

// NewIndex returns the index in the part of shared memory that has the name. All workers that use the same name, and
// prompts with equal [lb.Prefix.IndexMemory], share it.
func NewIndex(kv lb.KV, part string) *Index { return &Index{prefixIndex{kv: kv, part: part + "/"}} }

// Find returns who has leading blocks of the prompt: none for one that is not to be looked up.
func (x *Index) Find(now time.Duration, p *lb.Prefix) []Match {
	if !p.NeedsLookup() {
		return nil
	}
	return x.pages.find(now, p)
}

// Record records that the one with the tag has all blocks of the prompt.
func (x *Index) Record(now time.Duration, p *lb.Prefix, tag uint32) {
	if p.NeedsLookup() {
		x.pages.recordPrompt(now, p, tag)
	}
}

// Forget removes the record that the one with the tag has blocks of the prompt behind the first n.
func (x *Index) Forget(p *lb.Prefix, tag uint32, n int) { x.pages.forget(p, tag, n) }

// LongestMatch returns how many leading blocks of the plan's prompt the candidate has that has the most.
func (s *Store) LongestMatch(now time.Duration, p *lb.Plan) (blocks int) {
	if !p.Prefix.NeedsLookup() {
		return 0
	}
	for _, m := range s.prefixes.find(now, &p.Prefix) {
		has := func(c lb.Candidate) bool { return lb.EndpointTag(c.Addr) == m.Tag }
		if m.Blocks > blocks && slices.ContainsFunc(p.Candidates, has) {
			blocks = m.Blocks
		}
	}
	return blocks
}

// Holder returns the number of the candidate that has the beginning of the plan's prompt, of the first one of several,
// -1 for none.
func (s *Store) Holder(now time.Duration, p *lb.Plan) int {
	matches := s.prefixes.find(now, &p.Prefix)
	return slices.IndexFunc(p.Candidates, func(c lb.Candidate) bool {
		tag := lb.EndpointTag(c.Addr)
		return slices.ContainsFunc(matches, func(m Match) bool { return m.Tag == tag })
	})
}
