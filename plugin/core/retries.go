package core

import (
	"math/bits"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"
)

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
	for _, sign := range [...]struct {
		header string
		first  int // its value at the first attempt
	}{{"x-envoy-attempt-count", 1}, {"x-stainless-retry-count", 0}} {
		if n, err := strconv.Atoi(w.pl.traits.value(sign.header)); err == nil && n > sign.first {
			return true
		}
	}
	a, b := &w.attempt, &w.pl.cluster.retries
	return b.hasFailed(now, a.digest) && (a.exact || !b.isShared(now, a.id))
}
