package placement

import (
	"math/bits"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/plugin/clusters"
	"github.com/warmgate/warmgate/plugin/request"
)

// attempt is what tells whether a request is the retry of another one.
type attempt struct {
	id     uint64 // digest of its x-request-id, 0 for none
	digest uint64 // of that with what is known of the request itself, 0 for none
	exact  bool   // that is all of its prompt
	open   bool   // it is counted as open
}

// name takes over what tells whether the request is a retry. The id alone does not: where clients' ids are kept, a task
// may give one to all of its requests. So it counts together with the path and the length of the body, and with the
// prompt if that was read.
func (a *attempt) name(t *request.Traits, chain *request.Chain, model uint64, textBytes int) {
	id := t.Value("x-request-id")
	if id == "" || a.open {
		return
	}
	a.id = xxhash.Sum64String(id) | 1
	last := uint64(0) // of the prompt's blocks, whose key depends on all before it
	if a.exact = chain.HasBlocks(); a.exact {
		last = chain.Blocks[len(chain.Blocks)-1].Key
	}
	a.digest = a.id
	for _, n := range [...]uint64{
		xxhash.Sum64String(t.Path), uint64(t.Length), model, uint64(textBytes), last,
	} {
		const golden = 0x9e3779b97f4a7c15 // Fibonacci hashing (Knuth, volume 3, 6.4)
		a.digest = bits.RotateLeft64((a.digest^n)*golden, 32)
	}
}

// begin counts the request as open, once, if it has an id.
func (a *attempt) begin(now time.Duration, b *clusters.RetryBudget) {
	if a.id != 0 && !a.open {
		a.open = true
		b.Begin(now, a.id)
	}
}

// isRetry reports whether the request is another attempt at one that got no answer: a gateway in front of this one or
// the client's library says so, or it has the id, the path and the length of one that was refused, or whose client
// left, and the prompt where that is known. Where it is not, an id that several requests have at a time shows nothing.
func (a *attempt) isRetry(now time.Duration, t *request.Traits, b *clusters.RetryBudget) bool {
	for _, sign := range [...]struct {
		header string
		first  int // its value at the first attempt
	}{{"x-envoy-attempt-count", 1}, {"x-stainless-retry-count", 0}} {
		if n, err := strconv.Atoi(t.Value(sign.header)); err == nil && n > sign.first {
			return true
		}
	}
	return b.HasFailed(now, a.digest) && (a.exact || !b.IsShared(now, a.id))
}
