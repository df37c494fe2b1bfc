package lb

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/internal/recent"
)

const (
	// UnusedListTTL is how long what was computed for a list is kept without use, where there is room for others.
	UnusedListTTL = 10 * time.Second
	// RefreshEvery is how often lists are made again while they change with time alone.
	RefreshEvery = 100 * time.Millisecond
	// maxDerivedCandidates bounds DerivedLists, by the candidates in all lists.
	maxDerivedCandidates = 1 << 15
)

// CachedSize returns how many candidates a list counts for where lists are kept. A short one counts for more than it
// has, so that there are never too many.
func CachedSize(l List) int { return max(len(l.Candidates), 256) }

// DerivedLists keeps lists that were made from others.
type DerivedLists struct {
	made *recent.Cache[derivedKey, List]
}

// derivedKey is what a list is made from: another one, by its digest, and parameters.
type derivedKey struct{ source, params uint64 }

// Get returns what build makes of the list with the parameters.
func (d *DerivedLists) Get(now time.Duration, from List, params uint64, build func([]Candidate) []Candidate) List {
	if d.made == nil {
		d.made = recent.New[derivedKey, List](maxDerivedCandidates, UnusedListTTL)
	}
	key := derivedKey{from.Digest(), params}
	out, ok := d.made.Get(now, key)
	if !ok {
		out = NewList(build(from.Candidates))
		d.made.PutSized(now, key, out, CachedSize(out))
	}
	return out
}

// maxConfigs is how many configurations of a cluster are kept to find equal ones.
const maxConfigs = 64

// EqualConfigs are the latest configurations of a cluster's policies. Equal ones become one, so that policies share
// what is computed for them.
type EqualConfigs[C interface{ Equal(C) bool }] []C

// One returns the first of the configurations that equal this one.
func (known *EqualConfigs[C]) One(config C) C {
	if i := slices.IndexFunc(*known, config.Equal); i >= 0 {
		return (*known)[i]
	}
	if len(*known) >= maxConfigs {
		*known = slices.Delete(*known, 0, 1)
	}
	*known = append(*known, config)
	return config
}
