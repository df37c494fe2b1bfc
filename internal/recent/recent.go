// Package recent has a cache of a bounded number of values.
package recent

import (
	"iter"
	"time"
)

// Cache keeps what was used recently: at most a number of values, none for longer than an age without use once it
// needs the room.
type Cache[K comparable, V any] struct {
	max     int
	age     time.Duration
	entries map[K]*used[V]
	swept   time.Duration
}

type used[V any] struct {
	value V
	at    time.Duration // of the last use
}

// New returns a cache of so many values at most, which may make room for others after that age.
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

// Put keeps a value. When there are too many, one that has not been used for long makes room, or any other.
func (r *Cache[K, V]) Put(now time.Duration, key K, value V) {
	if now-r.swept >= r.age {
		r.swept = now
		for k, e := range r.entries {
			if now-e.at > r.age {
				delete(r.entries, k)
			}
		}
	}
	if _, ok := r.entries[key]; !ok && len(r.entries) >= r.max {
		for k := range r.entries {
			delete(r.entries, k)
			break
		}
	}
	r.entries[key] = &used[V]{value: value, at: now}
}

// Drop forgets a value.
func (r *Cache[K, V]) Drop(key K) { delete(r.entries, key) }

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
