package memstore

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
)

// randomPrefix returns a prompt of n blocks without a tenant.
func randomPrefix(rng *rand.Rand, n int) *lb.Prefix {
	keys := make([]uint64, n)
	for i := range keys {
		keys[i] = rng.Uint64() >> 8
	}
	return prefixOf(4<<20, time.Hour, keys...)
}

func setOf(blocks []prompt.Block) keySet {
	keys := keySet{}
	keys.set(blocks)
	return keys
}

// Nothing is read when no block is to be forgotten.
func TestForgetNothing(t *testing.T) {
	kv := newMemoryKV()
	x, p := prefixIndex{kv: kv}, prefixOf(1<<20, time.Hour, 1_000_001, 2_000_002, 3_000_003)
	x.find(0, p)
	x.record(0, p, 7)
	for _, n := range []int{3, 4} {
		kv.gets = 0
		if x.forget(p, 7, n); kv.gets > 0 {
			t.Errorf("%d pages are read to forget all but %d of 3 blocks", kv.gets, n)
		}
	}
	if got := x.find(0, p); len(got) != 1 || got[0] != (Match{7, 3}) {
		t.Errorf("holders: %v", got)
	}
}

// BenchmarkForget forgets a prompt in an index whose pages are full. Of the entries, every one, or one in 16, is of the
// endpoint.
func BenchmarkForget(b *testing.B) {
	for _, endpoints := range []uint32{1, 16} {
		for _, blocks := range []int{8, 64, 128} {
			b.Run(fmt.Sprintf("%d endpoints, %d blocks", endpoints, blocks), func(b *testing.B) {
				rng := rand.New(rand.NewPCG(1, 1))
				x := prefixIndex{kv: newMemoryKV()}
				for range 3000 {
					p := randomPrefix(rng, 64)
					x.locate(p)
					x.record(0, p, 1+rng.Uint32N(endpoints))
				}
				p := randomPrefix(rng, blocks)
				for b.Loop() {
					b.StopTimer()
					x.locate(p)
					x.record(0, p, 1)
					b.StartTimer()
					x.forget(p, 1, 0)
				}
			})
		}
	}
}
