package lb

import (
	"slices"
	"time"
)

// listCache caches results, each for a configuration and parameters, until they have not been used for unusedListTTL.
// Equal configurations are interned, so that they share results. C is a pointer to a configuration.
type listCache[C listConfig[C], P comparable, R any] struct {
	results map[listKey[C, P]]*cachedResult[R]
	configs map[C]bool // interned
	pool    listPool   // of the lists in the results
	sweptAt time.Duration
}

type listConfig[C any] interface {
	comparable
	equal(other C) bool
}

type listKey[C, P comparable] struct {
	config C
	params P
}

type cachedResult[R any] struct {
	lastUsed time.Duration
	value    R
}

func newListCache[C listConfig[C], P comparable, R any]() listCache[C, P, R] {
	return listCache[C, P, R]{results: map[listKey[C, P]]*cachedResult[R]{}, configs: map[C]bool{}}
}

// get returns the result for the key, and whether there was none: then it is the zero value.
func (c *listCache[C, P, R]) get(now time.Duration, key listKey[C, P]) (result *R, added bool) {
	r := c.results[key]
	if added = r == nil; added {
		r = &cachedResult[R]{}
		c.results[key] = r
	}
	r.lastUsed = now
	return &r.value, added
}

// sweep deletes what is no longer in use. It is called before a result is recomputed.
func (c *listCache[C, P, R]) sweep(now time.Duration) {
	if now-c.sweptAt < unusedListTTL/10 {
		return
	}
	c.sweptAt = now
	clear(c.configs)
	for key, r := range c.results {
		if now-r.lastUsed > unusedListTTL {
			delete(c.results, key)
			continue
		}
		c.configs[key.config] = true
	}
	c.pool.sweep(now)
}

// intern returns one pointer for all equal configurations.
func (c *listCache[C, P, R]) intern(config C) C {
	for known := range c.configs {
		if known.equal(config) {
			return known
		}
	}
	c.configs[config] = true
	return config
}

// listPool interns lists of candidates: equal lists become one, which stays in the pool while it is in use. When the
// pool is full, the lists that were made least recently are evicted: while endpoints fail, nearly every outcome makes a
// new list.
type listPool struct{ lists []pooledList } // in the order of lastMade

type pooledList struct {
	candidates []Candidate
	lastMade   time.Duration
}

// maxPooledLists and maxPooledCandidates bound the lists of a pool and the candidates in all of them.
const maxPooledLists, maxPooledCandidates = 128, 1 << 15

// intern returns the list of the pool that equals cs, else cs, which is then in the pool.
func (p *listPool) intern(now time.Duration, cs []Candidate) []Candidate {
	for i := range p.lists {
		if slices.Equal(p.lists[i].candidates, cs) {
			latest := pooledList{p.lists[i].candidates, now}
			p.lists = append(slices.Delete(p.lists, i, i+1), latest)
			return latest.candidates
		}
	}
	p.lists = append(p.lists, pooledList{cs, now})
	n, first := len(cs), len(p.lists)-1 // the newest lists that fit
	for first > 0 && len(p.lists)-first < maxPooledLists && n+len(p.lists[first-1].candidates) <= maxPooledCandidates {
		first--
		n += len(p.lists[first].candidates)
	}
	p.lists = slices.Delete(p.lists, 0, first)
	return cs
}

// sweep deletes lists that were not made recently. A list in use is made again more often.
func (p *listPool) sweep(now time.Duration) {
	p.lists = slices.DeleteFunc(p.lists, func(l pooledList) bool { return now-l.lastMade > unusedListTTL })
}

// derivedLists caches lists that are made from other lists, so that the same source and parameters give a list at the
// same address, by which stores recognize it. K is the type of the parameters.
type derivedLists[K comparable] struct {
	lists      map[derivedKey[K]][]Candidate
	candidates int // in all lists
}

// derivedKey is what a list is made from: the address and length of its source, and the parameters.
type derivedKey[K comparable] struct {
	first  *Candidate
	n      int
	params K
}

// maxDerivedLists and maxDerivedCandidates bound the lists and the candidates in all of them. Above it all lists are
// deleted; those in use are made again.
const maxDerivedLists, maxDerivedCandidates = 64, 1 << 15

// get returns the cached list for cs and the parameters, else the result of build.
func (d *derivedLists[K]) get(cs []Candidate, params K, build func([]Candidate) []Candidate) []Candidate {
	if len(cs) == 0 {
		return cs
	}
	from := derivedKey[K]{&cs[0], len(cs), params}
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
