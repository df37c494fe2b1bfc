package lb

// derived keeps lists of candidates that were made of others, so that the same list under the same terms makes the
// same one: stores tell lists apart by where they are.
type derived[K comparable] struct {
	lists map[source[K]][]Candidate
	size  int // candidates in all of them
}

// source is what a list was made of.
type source[K comparable] struct {
	first *Candidate
	n     int
	terms K
}

// derivedKept is how many lists are kept, and inDerived how many candidates in all of them. Those of old sources go
// with all others: what is in use is soon there again.
const derivedKept, inDerived = 64, 1 << 15

// of returns what build makes of the candidates under the terms.
func (d *derived[K]) of(cs []Candidate, terms K, build func([]Candidate) []Candidate) []Candidate {
	if len(cs) == 0 {
		return cs
	}
	from := source[K]{&cs[0], len(cs), terms}
	if out, ok := d.lists[from]; ok {
		return out
	}
	if d.lists == nil || len(d.lists) >= derivedKept || d.size+len(cs) > inDerived {
		d.lists, d.size = map[source[K]][]Candidate{}, 0
	}
	out := build(cs)
	d.lists[from] = out
	d.size += len(out)
	return out
}
