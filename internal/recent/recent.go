// Package recent has a cache of bounded size.
package recent

import (
	"iter"
	"time"
)

// Cache keeps what was used recently: as many values as there is room for, none for longer than an age without use once
// others need the room.
type Cache[K comparable, V any] struct {
	max, size int // of all values together
	age       time.Duration
	entries   map[K]*used[V]
	swept     time.Duration
}

type used[V any] struct {
	value V
	size  int
	at    time.Duration // of the last use
}

// New returns a cache with room for so many values of size 1, each of which may make room for others after that age.
func New[K comparable, V any](max int, age time.Duration) *Cache[K, V] {
	return &Cache[K, V]{max: max, age: age, entries: map[K]*used[V]{}}
}

// Get returns a value, which is used by that, and whether there is one.
func (r *Cache[K, V]) Get(now time.Duration, key K) (V, bool) {
	e := r.entries[key]
	if e == nil {
		var none V
		return none, false
	}
	e.at = now
	return e.value, true
}

// Put keeps a value of size 1. What has not been used for long makes room for it, or else any other.
func (r *Cache[K, V]) Put(now time.Duration, key K, value V) { r.PutSized(now, key, value, 1) }

// PutSized is Put for a value of that size, which is kept however large it is.
func (r *Cache[K, V]) PutSized(now time.Duration, key K, value V, size int) {
	if now-r.swept >= r.age {
		r.swept = now
		for k, e := range r.entries {
			if now-e.at > r.age {
				r.Drop(k)
			}
		}
	}
	e := r.entries[key]
	if e == nil {
		e = &used[V]{}
		r.entries[key] = e
	}
	r.size += size - e.size
	e.value, e.size, e.at = value, size, now
	for k := range r.entries {
		if r.size <= r.max {
			break
		}
		if k != key {
			r.Drop(k)
		}
	}
}

// Drop forgets a value.
func (r *Cache[K, V]) Drop(key K) {
	if e := r.entries[key]; e != nil {
		r.size -= e.size
		delete(r.entries, key)
	}
}

// Len returns how many values are kept.
func (r *Cache[K, V]) Len() int { return len(r.entries) }

// UsedAfter returns the values that were used after that time. That is no use of them.
func (r *Cache[K, V]) UsedAfter(at time.Duration) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for key, e := range r.entries {
			if e.at > at && !yield(key, e.value) {
				return
			}
		}
	}
}
