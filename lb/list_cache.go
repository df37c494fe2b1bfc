package lb

// derivedLists keeps lists of candidates that were made of others, so that the same list under the same terms makes the
// same one: stores tell lists apart by where they are.
type derivedLists[K comparable] struct {
	lists      map[derivedKey[K]][]Candidate
	candidates int // candidates in all of them
}

// derivedKey is what a list was made of.
type derivedKey[K comparable] struct {
	first  *Candidate
	n      int
	params K
}

// maxDerivedLists is how many lists are kept, and inDerived how many candidates in all of them. Those of old sources go
// with all others: what is in use is soon there again.
const maxDerivedLists, maxDerivedCandidates = 64, 1 << 15

// get returns what build makes of the candidates under the terms.
func (d *derivedLists[K]) get(cs []Candidate, terms K, build func([]Candidate) []Candidate) []Candidate {
	if len(cs) == 0 {
		return cs
	}
	from := derivedKey[K]{&cs[0], len(cs), terms}
	if out, ok := d.lists[from]; ok {
		return out
	}
	if d.lists == nil || len(d.lists) >= maxDerivedLists || d.candidates+len(cs) > maxDerivedCandidates {
		d.lists, d.candidates = map[derivedKey[K]][]Candidate{}, 0
	}
	out := build(cs)
	d.lists[from] = out
	d.candidates += len(out)
	return out
}
