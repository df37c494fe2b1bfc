package enginesim

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// chainOf is a chain of names that share a prefix with every chain of the same family.
func chainOf(family uint64, blocks int) []uint64 {
	chain := make([]uint64, blocks)
	for i := range chain {
		chain[i] = family<<32 | uint64(i)
	}
	return chain
}

// fill takes and names the blocks of a chain the cache does not hold yet.
func fill(t *testing.T, c *kvCache, chain []uint64) []int32 {
	t.Helper()
	hits, _ := c.lookup(chain)
	ids := c.acquire(nil, chain[:hits])
	for _, h := range chain[hits:] {
		id, ok := c.alloc()
		if !ok {
			t.Fatalf("no free block for %v", chain)
		}
		c.name(id, h)
		ids = append(ids, id)
	}
	return ids
}

func TestCacheReusesPrefix(t *testing.T) {
	c := newKVCache(8)
	c.release(fill(t, c, chainOf(1, 3)))
	if hits, idle := c.lookup(chainOf(1, 5)); hits != 3 || idle != 3 {
		t.Errorf("lookup = %d hits, %d idle, want 3 and 3", hits, idle)
	}
	ids := fill(t, c, chainOf(1, 2))
	if hits, idle := c.lookup(chainOf(1, 5)); hits != 3 || idle != 1 {
		t.Errorf("with two in use: lookup = %d hits, %d idle, want 3 and 1", hits, idle)
	}
	if got := c.usage(); got != 0.25 {
		t.Errorf("usage = %v, want 0.25", got)
	}
	c.release(ids)
	if c.free != 8 {
		t.Errorf("%d blocks free, want all 8", c.free)
	}
	if hits, _ := c.lookup(append([]uint64{7}, chainOf(1, 3)...)); hits != 0 {
		t.Errorf("a chain that begins otherwise has %d hits", hits)
	}
}

func TestCacheEvictsLeastRecentlyUsedFromTheEnd(t *testing.T) {
	c := newKVCache(6)
	c.release(fill(t, c, chainOf(1, 3)))
	c.release(fill(t, c, chainOf(2, 3)))
	c.release(fill(t, c, chainOf(1, 3))) // now 2 is the older one
	fill(t, c, chainOf(3, 2))
	for _, want := range []struct {
		family uint64
		hits   int
	}{{1, 3}, {2, 1}, {3, 2}} {
		if hits, _ := c.lookup(chainOf(want.family, 3)); hits != want.hits {
			t.Errorf("chain %d: %d blocks left, want %d", want.family, hits, want.hits)
		}
	}
}

func TestCacheTakesAnonymousBlocksFirst(t *testing.T) {
	c := newKVCache(3)
	named := fill(t, c, chainOf(1, 2))
	last, _ := c.alloc()
	c.name(last, chainOf(1, 2)[0]) // the name is taken: the block stays anonymous
	c.release(named)
	c.release([]int32{last})
	if got, _ := c.alloc(); got != last {
		t.Errorf("alloc took block %d, want the anonymous block %d", got, last)
	}
	if hits, _ := c.lookup(chainOf(1, 2)); hits != 2 {
		t.Errorf("%d blocks of the chain left, want 2", hits)
	}
}

func TestCacheExhausted(t *testing.T) {
	c := newKVCache(2)
	fill(t, c, chainOf(1, 2))
	if id, ok := c.alloc(); ok {
		t.Errorf("alloc gave block %d although all are in use", id)
	}
	if c.usage() != 1 {
		t.Errorf("usage = %v, want 1", c.usage())
	}
}

func TestCacheForget(t *testing.T) {
	c := newKVCache(4)
	ids := fill(t, c, chainOf(1, 2))
	c.forget()
	if hits, _ := c.lookup(chainOf(1, 2)); hits != 0 {
		t.Errorf("%d hits after forget", hits)
	}
	c.release(ids)
	checkCache(t, c, nil)
}

// TestCacheInvariants runs random sequences against the cache and checks after each operation
// that every block is either free or held by exactly the sequences that took it.
func TestCacheInvariants(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		c := newKVCache(1 + r.IntN(24))
		var held [][]int32
		for range 300 {
			if len(held) > 0 && r.IntN(2) == 0 {
				i := r.IntN(len(held))
				c.release(held[i])
				held = slices.Delete(held, i, i+1)
			} else if chain := chainOf(uint64(r.IntN(4)), 1+r.IntN(6)); fits(c, chain) {
				held = append(held, fill(t, c, chain))
			}
			checkCache(t, c, held)
		}
	}
}

func fits(c *kvCache, chain []uint64) bool {
	hits, idle := c.lookup(chain)
	return len(chain)-hits <= c.free-idle
}

// checkCache compares the cache with the blocks that are held.
func checkCache(t *testing.T, c *kvCache, held [][]int32) {
	t.Helper()
	refs := make([]int32, c.root)
	for _, ids := range held {
		for _, id := range ids {
			refs[id]++
		}
	}
	listed := 0
	for prev, id := c.root, c.blocks[c.root].next; id != c.root; prev, id = id, c.blocks[id].next {
		if refs[id] != 0 || c.blocks[id].prev != prev {
			t.Fatalf("block %d on the free list: %d holders, prev %d, want none and %d", id, refs[id],
				c.blocks[id].prev, prev)
		}
		listed++
	}
	used := 0
	for id, n := range refs {
		if c.blocks[id].refs != n {
			t.Fatalf("block %d counts %d references, want %d", id, c.blocks[id].refs, n)
		}
		if n > 0 {
			used++
		}
	}
	if listed != c.free || listed+used != int(c.root) {
		t.Fatalf("%d blocks listed, %d counted free, %d used of %d", listed, c.free, used, c.root)
	}
	for h, id := range c.byHash {
		if !c.blocks[id].hashed || c.blocks[id].hash != h {
			t.Fatalf("name %x leads to block %d, which has another", h, id)
		}
	}
}

func TestExtendChain(t *testing.T) {
	data := []byte("0123456789abcdefXYZ")
	whole := extendChain(nil, 1, data, 8)
	if len(whole) != 2 {
		t.Fatalf("%d blocks of 8 in 19 bytes, want 2", len(whole))
	}
	if grown := extendChain(extendChain(nil, 1, data[:9], 8), 1, data, 8); !slices.Equal(grown, whole) {
		t.Errorf("grown in two steps %x, at once %x", grown, whole)
	}
	other := extendChain(nil, 1, []byte("x123456789abcdef"), 8)
	if other[1] == whole[1] {
		t.Error("a block's name does not depend on the block before it")
	}
	if salted := extendChain(nil, 2, data, 8); salted[0] == whole[0] {
		t.Error("a block's name does not depend on the salt")
	}
}
