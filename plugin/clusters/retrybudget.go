package clusters

import (
	"time"

	"github.com/warmgate/warmgate/internal/recent"
	"github.com/warmgate/warmgate/plugin/endpoints"
)

// Clients that are refused try again. While a cluster is overloaded those attempts are more requests that it has no
// room for, so only a part of all requests may be retries: else a crowd that retries keeps a cluster overloaded that
// would long have recovered. Each worker counts its own requests; what matters is a share, and workers get the same
// mix.

const (
	// RetrySeconds is over how many seconds requests and retries are compared, and for how long a cluster that has
	// refused a request counts as overloaded.
	RetrySeconds = 10
	// FreeRetries is how many retries are allowed in that time, however few requests there are.
	FreeRetries = 3
	// maxEnded is how many requests are remembered that have got no answer, maxShared, how many ids that several
	// requests have, and endedMemory for how long.
	maxEnded    = 4096
	maxShared   = 1024
	endedMemory = 30 * time.Second
)

// RetryBudget is how many requests of a cluster were retries lately.
type RetryBudget struct {
	seconds [RetrySeconds]retrySecond
	ended   *recent.Cache[uint64, time.Duration] // when requests ended without an answer, by their digests
	open    map[uint64]int                       // requests that are open, by their ids
	shared  map[uint64]time.Duration             // when several were open at a time, likewise
}

// retrySecond counts the requests of one second.
type retrySecond struct {
	second  int64
	first   int // that are no retries
	retries int // that were allowed
}

// Allows counts a request, and reports whether it may be served: one that is no retry always, a retry of an overloaded
// cluster if no more than the given percentage of its requests are retries.
func (b *RetryBudget) Allows(now time.Duration, retry bool, percent int, overloaded bool) bool {
	at := int64(now / time.Second)
	s := &b.seconds[at%RetrySeconds]
	if s.second != at {
		*s = retrySecond{second: at}
	}
	if !retry {
		s.first++
		return true
	}
	if overloaded {
		first, retries := 0, 0
		for i := range b.seconds {
			if c := &b.seconds[i]; at-c.second < RetrySeconds {
				first += c.first
				retries += c.retries
			}
		}
		if retries >= max(FreeRetries, (first+retries+1)*percent/100) {
			return false
		}
	}
	s.retries++
	return true
}

// Failed notes that a request has ended without an answer: another one with its id is a retry.
func (b *RetryBudget) Failed(now time.Duration, id uint64) {
	if id == 0 {
		return
	}
	if b.ended == nil {
		b.ended = recent.New[uint64, time.Duration](maxEnded, endpoints.ClusterAge)
	}
	b.ended.Put(now, id, now)
}

// HasFailed reports whether a request with that id has ended without an answer lately.
func (b *RetryBudget) HasFailed(now time.Duration, id uint64) bool {
	if b.ended == nil || id == 0 {
		return false
	}
	at, ok := b.ended.Get(now, id)
	return ok && now-at < endedMemory
}

// Begin counts a request as open. While one is, another with its id is another request: a client tries again when the
// first attempt is over.
func (b *RetryBudget) Begin(now time.Duration, id uint64) {
	if b.open == nil {
		b.open, b.shared = map[uint64]int{}, map[uint64]time.Duration{}
	}
	n := b.open[id]
	b.open[id] = n + 1
	if n == 0 {
		return
	}
	if len(b.shared) >= maxShared { // those in use will be there again
		clear(b.shared)
	}
	b.shared[id] = now
}

// End is the reverse of Begin.
func (b *RetryBudget) End(id uint64) {
	if b.open[id] > 1 {
		b.open[id]--
	} else {
		delete(b.open, id)
	}
}

// IsShared reports whether several requests had that id at a time lately.
func (b *RetryBudget) IsShared(now time.Duration, id uint64) bool {
	at, ok := b.shared[id]
	return ok && now-at < endedMemory
}
