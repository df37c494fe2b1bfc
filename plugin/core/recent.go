package core

import "time"

// recent keeps what was used recently: at most a number of values, none for longer than clusterAge without use once it
// needs the room.
type recent[K comparable, V any] struct {
	max     int
	entries map[K]*used[V]
	swept   time.Duration
}

type used[V any] struct {
	value V
	at    time.Duration // of the last use
}

func newRecent[K comparable, V any](max int) *recent[K, V] {
	return &recent[K, V]{max: max, entries: map[K]*used[V]{}}
}

func (r *recent[K, V]) get(now time.Duration, key K) (V, bool) {
	e := r.entries[key]
	if e == nil {
		var none V
		return none, false
	}
	e.at = now
	return e.value, true
}

// put keeps a value. When there are too many, one that has not been used for long makes room, or any other.
func (r *recent[K, V]) put(now time.Duration, key K, value V) {
	if now-r.swept >= clusterAge {
		r.swept = now
		for k, e := range r.entries {
			if now-e.at > clusterAge {
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

func (r *recent[K, V]) drop(key K) { delete(r.entries, key) }
