package core

import (
	"strconv"
	"time"
)

// Clients that are refused try again. While a cluster is overloaded those attempts are more requests that it has no
// room for, so only a part of all requests may be retries: else a crowd that retries keeps a cluster overloaded that
// would long have recovered. Each worker counts its own requests; what matters is a share, and workers get the same
// mix.

const (
	// retrySeconds is over how many seconds requests and retries are compared, and for how long a cluster that has
	// refused a request counts as overloaded.
	retrySeconds = 10
	// freeRetries is how many retries are allowed in that time, however few requests there are.
	freeRetries = 3
	// maxEnded is how many requests are remembered that have got no answer, and endedMemory for how long.
	maxEnded    = 4096
	endedMemory = 30 * time.Second
)

// retryBudget is how many requests of a cluster were retries lately.
type retryBudget struct {
	seconds [retrySeconds]retrySecond
	ended   *recent[uint64, time.Duration] // when requests ended without an answer, by the digest of their id
}

// retrySecond counts the requests of one second.
type retrySecond struct {
	second  int64
	first   int // that are no retries
	retries int // that were allowed
}

// allows counts a request, and reports whether it may be served: one that is no retry always, a retry of an overloaded
// cluster if no more than the given percentage of its requests are retries.
func (b *retryBudget) allows(now time.Duration, retry bool, percent int, overloaded bool) bool {
	at := int64(now / time.Second)
	s := &b.seconds[at%retrySeconds]
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
			if c := &b.seconds[i]; at-c.second < retrySeconds {
				first += c.first
				retries += c.retries
			}
		}
		if retries >= max(freeRetries, (first+retries+1)*percent/100) {
			return false
		}
	}
	s.retries++
	return true
}

// failed notes that a request has ended without an answer: another one with its id is a retry.
func (b *retryBudget) failed(now time.Duration, id uint64) {
	if id == 0 {
		return
	}
	if b.ended == nil {
		b.ended = newRecent[uint64, time.Duration](maxEnded)
	}
	b.ended.put(now, id, now)
}

// hasFailed reports whether a request with that id has ended without an answer lately.
func (b *retryBudget) hasFailed(now time.Duration, id uint64) bool {
	if b.ended == nil || id == 0 {
		return false
	}
	at, ok := b.ended.get(now, id)
	return ok && now-at < endedMemory
}

// isRetry reports whether the request is another attempt at one that got no answer: a gateway in front of this one or
// the client's library says so, or its id was that of a request which was refused, or whose client left. Several
// requests that one task makes may have the same id, but the answers to the others have come.
func (s *Stream) isRetry(now time.Duration) bool {
	for _, sign := range [...]struct {
		header string
		first  int // its value at the first attempt
	}{{"x-envoy-attempt-count", 1}, {"x-stainless-retry-count", 0}} {
		if n, err := strconv.Atoi(s.traits.value(sign.header)); err == nil && n > sign.first {
			return true
		}
	}
	return s.cluster.retries.hasFailed(now, s.wait.id)
}
