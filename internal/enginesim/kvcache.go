package enginesim

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// kvCache is a paged KV cache with prefix reuse. A block is either in use (refs > 0) or on the free list. A free block
// that still has a name (hashed) can be found again by lookup until alloc reuses it; the list is ordered so that alloc
// takes the least recently used one. Not safe for concurrent use.
type kvCache struct {
	blocks []kvBlock
	byHash map[uint64]int32
	root   int32 // the number of blocks. The entry there closes the ring of the free list: next is its first block
	free   int
}

type kvBlock struct {
	hash       uint64
	hashed     bool
	refs       int32
	prev, next int32 // on the free list
}

func newKVCache(blocks int) *kvCache {
	c := &kvCache{blocks: make([]kvBlock, blocks+1), byHash: map[uint64]int32{}, root: int32(blocks)}
	c.blocks[c.root].prev, c.blocks[c.root].next = c.root, c.root
	for id := range c.root {
		c.insert(id, c.blocks[c.root].prev)
	}
	return c
}

// lookup returns how many of the leading blocks named by the chain are cached, and how many of
// those are on the free list: acquiring them shrinks the space left for new blocks.
func (c *kvCache) lookup(chain []uint64) (hits, idle int) {
	for _, h := range chain {
		id, ok := c.byHash[h]
		if !ok {
			break
		}
		if c.blocks[id].refs == 0 {
			idle++
		}
		hits++
	}
	return hits, idle
}

// acquire appends the blocks of the chain, all of which lookup has found, to dst.
func (c *kvCache) acquire(dst []int32, chain []uint64) []int32 {
	for _, h := range chain {
		id := c.byHash[h]
		if c.blocks[id].refs == 0 {
			c.unlink(id)
		}
		c.blocks[id].refs++
		dst = append(dst, id)
	}
	return dst
}

// alloc takes the least recently used free block and forgets what it held. It reports false
// when every block is in use.
func (c *kvCache) alloc() (int32, bool) {
	id := c.blocks[c.root].next
	if id == c.root {
		return 0, false
	}
	c.unlink(id)
	b := &c.blocks[id]
	if b.hashed {
		delete(c.byHash, b.hash)
		b.hashed = false
	}
	b.refs = 1
	return id, true
}

// name makes a block findable under a hash. When another block already has that name the block
// stays anonymous: the same content twice would only shorten the cache.
func (c *kvCache) name(id int32, hash uint64) {
	b := &c.blocks[id]
	if b.hashed {
		return
	}
	if _, taken := c.byHash[hash]; taken {
		return
	}
	b.hash, b.hashed = hash, true
	c.byHash[hash] = id
}

// release gives up one reference to each block of a request. The last block goes first, so
// that a chain is evicted from its end and what is left of it stays a usable prefix. Anonymous
// blocks can never be found again and are taken before any named one.
func (c *kvCache) release(ids []int32) {
	for i := len(ids) - 1; i >= 0; i-- {
		b := &c.blocks[ids[i]]
		b.refs--
		switch {
		case b.refs > 0:
		case b.hashed:
			c.insert(ids[i], c.blocks[c.root].prev)
		default:
			c.insert(ids[i], c.root)
		}
	}
}

// usage is the share of blocks in use by requests, 0 to 1. Cached blocks that no request uses count as free, as in
// vLLM.
func (c *kvCache) usage() float64 { return float64(int(c.root)-c.free) / float64(c.root) }

// forget makes every block anonymous, so that no later prompt finds a prefix. Requests keep
// the blocks they use.
func (c *kvCache) forget() {
	clear(c.byHash)
	for i := range c.blocks {
		c.blocks[i].hashed = false
	}
}

// insert puts a block on the free list, after another one there.
func (c *kvCache) insert(id, after int32) {
	next := c.blocks[after].next
	c.blocks[id].prev, c.blocks[id].next = after, next
	c.blocks[after].next, c.blocks[next].prev = id, id
	c.free++
}

// unlink takes a block off the free list.
func (c *kvCache) unlink(id int32) {
	b := &c.blocks[id]
	c.blocks[b.prev].next, c.blocks[b.next].prev = b.next, b.prev
	c.free--
}

// extendChain appends the names of the full blocks of data that the chain does not cover yet.
// A name depends on the salt, on the block and on every block before it.
func extendChain(chain []uint64, salt uint64, data []byte, blockBytes int) []uint64 {
	var d xxhash.Digest
	var parent [8]byte
	for end := (len(chain) + 1) * blockBytes; end <= len(data); end += blockBytes {
		prev := salt
		if n := len(chain); n > 0 {
			prev = chain[n-1]
		}
		binary.LittleEndian.PutUint64(parent[:], prev)
		d.Reset()
		// Digest.Write never fails.
		_, _ = d.Write(parent[:])
		_, _ = d.Write(data[end-blockBytes : end])
		chain = append(chain, d.Sum64())
	}
	return chain
}
