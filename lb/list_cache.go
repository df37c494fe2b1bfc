package lb

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/internal/recent"
)

const (
	// unusedListTTL is how long what was computed for a list is kept without use, where there is room for others.
	unusedListTTL = 10 * time.Second
	// maxDerivedCandidates bounds derivedLists, by the candidates in all lists.
	maxDerivedCandidates = 1 << 15
)

// cachedSize returns how many candidates a list counts for where lists are kept. A short one counts for more than it
// has, so that there are never too many.
func cachedSize(l List) int { return max(len(l.Candidates), 256) }

// derivedLists keeps lists that were made from others.
type derivedLists struct {
	made *recent.Cache[derivedKey, List]
}

// derivedKey is what a list is made from: another one, by its digest, and parameters.
type derivedKey struct{ source, params uint64 }

// get returns what build makes of the list with the parameters.
func (d *derivedLists) get(now time.Duration, from List, params uint64, build func([]Candidate) []Candidate) List {
	if d.made == nil {
		d.made = recent.New[derivedKey, List](maxDerivedCandidates, unusedListTTL)
	}
	key := derivedKey{from.Digest(), params}
	out, ok := d.made.Get(now, key)
	if !ok {
		out = NewList(build(from.Candidates))
		d.made.PutSized(now, key, out, cachedSize(out))
	}
	return out
}

// maxConfigs is how many configurations of a cluster are kept to find equal ones.
const maxConfigs = 64

// equalConfigs are the latest configurations of a cluster's policies. Equal ones become one, so that policies share
// what is computed for them.
type equalConfigs[C interface{ equal(C) bool }] []C

// one returns the first of the configurations that equal this one.
func (known *equalConfigs[C]) one(config C) C {
	if i := slices.IndexFunc(*known, config.equal); i >= 0 {
		return (*known)[i]
	}
	if len(*known) >= maxConfigs {
		*known = slices.Delete(*known, 0, 1)
	}
	*known = append(*known, config)
	return config
}
