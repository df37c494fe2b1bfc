package core

import (
	"math/bits"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/internal/recent"
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
	// maxEnded is how many requests are remembered that have got no answer, maxShared, how many ids that several
	// requests have, and endedMemory for how long.
	maxEnded    = 4096
	maxShared   = 1024
	endedMemory = 30 * time.Second
)

// retryBudget is how many requests of a cluster were retries lately.
type retryBudget struct {
	seconds [retrySeconds]retrySecond
	ended   *recent.Cache[uint64, time.Duration] // when requests ended without an answer, by attempt.digest
	open    map[uint64]int                       // requests that are open, by attempt.id
	shared  map[uint64]time.Duration             // when several were open at a time, likewise
}

// attempt is what tells whether a request is the retry of another one.
type attempt struct {
	id     uint64 // digest of its x-request-id, 0 for none
	digest uint64 // of that with what is known of the request itself, 0 for none
	exact  bool   // that is all of its prompt
	open   bool   // it is counted in retryBudget.open
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
		b.ended = recent.New[uint64, time.Duration](maxEnded, clusterAge)
	}
	b.ended.Put(now, id, now)
}

// hasFailed reports whether a request with that id has ended without an answer lately.
func (b *retryBudget) hasFailed(now time.Duration, id uint64) bool {
	if b.ended == nil || id == 0 {
		return false
	}
	at, ok := b.ended.Get(now, id)
	return ok && now-at < endedMemory
}

// begin counts a request as open. While one is, another with its id is another request: a client tries again when the
// first attempt is over.
func (b *retryBudget) begin(now time.Duration, a *attempt) {
	if a.id == 0 || a.open {
		return
	}
	if b.open == nil {
		b.open, b.shared = map[uint64]int{}, map[uint64]time.Duration{}
	}
	n := b.open[a.id]
	b.open[a.id], a.open = n+1, true
	if n == 0 {
		return
	}
	if len(b.shared) >= maxShared { // those in use will be there again
		clear(b.shared)
	}
	b.shared[a.id] = now
}

// end is the reverse of begin.
func (b *retryBudget) end(a *attempt) {
	if !a.open {
		return
	}
	if a.open = false; b.open[a.id] > 1 {
		b.open[a.id]--
	} else {
		delete(b.open, a.id)
	}
}

// isShared reports whether several requests had that id at a time lately.
func (b *retryBudget) isShared(now time.Duration, id uint64) bool {
	at, ok := b.shared[id]
	return ok && now-at < endedMemory
}

// nameAttempt takes over what tells whether the request is a retry. The id alone does not: where clients' ids are kept,
// a task may give one to all of its requests. So it counts together with the path and the length of the body, and with
// the prompt if that was read.
func (w *waiting) nameAttempt(now time.Duration) {
	pl := w.pl
	a := &w.attempt
	id := pl.traits.value("x-request-id")
	if id == "" || a.open {
		return
	}
	a.id = xxhash.Sum64String(id) | 1
	last := uint64(0) // of the prompt's blocks, whose key depends on all before it
	if a.exact = pl.prompt.chain.hasBlocks(); a.exact {
		last = pl.prompt.chain.blocks[len(pl.prompt.chain.blocks)-1].Key
	}
	a.digest = a.id
	for _, n := range [...]uint64{
		xxhash.Sum64String(pl.traits.path), uint64(pl.traits.length), pl.prompt.work.model.Model,
		uint64(pl.prompt.work.info.TextBytes), last,
	} {
		const golden = 0x9e3779b97f4a7c15 // Fibonacci hashing (Knuth, volume 3, 6.4)
		a.digest = bits.RotateLeft64((a.digest^n)*golden, 32)
	}
	pl.cluster.retries.begin(now, a)
}

// isRetry reports whether the request is another attempt at one that got no answer: a gateway in front of this one or
// the client's library says so, or it has the id, the path and the length of one that was refused, or whose client
// left, and the prompt where that is known. Where it is not, an id that several requests have at a time shows nothing.
func (w *waiting) isRetry(now time.Duration) bool {
	pl := w.pl
	for _, sign := range [...]struct {
		header string
		first  int // its value at the first attempt
	}{{"x-envoy-attempt-count", 1}, {"x-stainless-retry-count", 0}} {
		if n, err := strconv.Atoi(pl.traits.value(sign.header)); err == nil && n > sign.first {
			return true
		}
	}
	a, b := &w.attempt, &pl.cluster.retries
	return b.hasFailed(now, a.digest) && (a.exact || !b.isShared(now, a.id))
}
