package redisclient

import (
	"math"
	"strconv"
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prefixindex"
	"github.com/warmgate/warmgate/lb/prompt"
)

const (
	// maxBlocks is how many blocks of a prompt are matched and recorded. Further ones are ignored.
	maxBlocks = prompt.MaxBlocks
	// shortTTLRoom is for how many endpoints with a shorter TTL a command is built without allocating.
	shortTTLRoom = 16
	// pageBytes is how many bytes of a server's memory a full page needs: 2016 bytes of entries, rounded up by the
	// allocator, and the field in the hash.
	pageBytes = 2048 + 96
	// fieldBytes is the length of a page's field in the hash.
	fieldBytes = 3
	// innerBit is set in that of an inner block where its place in a chain does not say it: no index has so many pages.
	innerBit = 1 << (8*fieldBytes - 1)
	// tick is the unit of time in pages.
	tick = prefixindex.Tick
	// maxExact is the largest number below which all integers are exact in Lua.
	maxExact = 1 << 53
)

// IndexBlocks returns how many prefix blocks a scope's index remembers in so many bytes of the server's memory.
func IndexBlocks(bytes int) int { return prefixindex.Blocks(pageCount(bytes)) }

// pageCount returns how many pages an index of so many bytes has. prefixindex.MinPages is the least.
func pageCount(bytes int) int { return max(bytes/pageBytes, prefixindex.MinPages) }

// PagesKey returns the key of the scope's pages, for an index of so many bytes. The number of pages is part of the key,
// because it decides in which page a block is: while gateways change from one size to another, each size has its own
// pages.
func (k *Keys) PagesKey(bytes int) string {
	return k.Pages + strconv.FormatInt(int64(pageCount(bytes)), 36)
}

// blockOrder is the order in which a chain has blocks: the inner ones last. It has their indexes.
type blockOrder struct {
	index  [maxBlocks]uint8
	n, all int // how many come before the inner ones; how many there are
}

// orderOf returns the order of the blocks.
func orderOf(blocks []prompt.Block) (o blockOrder) {
	blocks = blocks[:min(len(blocks), maxBlocks)]
	o.n = prompt.Recorded(blocks)
	at, inner := 0, o.n
	for i := range blocks {
		to := &at
		if blocks[i].Inner {
			to = &inner
		}
		o.index[*to] = uint8(i)
		*to++
	}
	o.all = inner
	return o
}

// leading returns how many leading blocks a script means by a number: those up to the one that has it in this order,
// counted from 1. Without an order the number is the same.
func (o *blockOrder) leading(number int) int {
	if o == nil || number == 0 || number > o.all {
		return number
	}
	return int(o.index[number-1]) + 1
}

// appendKeys appends the keys of some blocks of a chain, then the fields of their own pages.
func (o *blockOrder) appendKeys(chain wire.Writer, p *lb.Prefix, from, to int) wire.Writer {
	pages := uint64(pageCount(p.IndexMemory.Remote))
	for _, i := range o.index[from:to] {
		chain = chain.Uint64(p.Blocks[i].Key)
	}
	for _, i := range o.index[from:to] {
		chain = chain.Uint(fieldBytes, p.Blocks[i].Key%pages)
	}
	return chain
}

// chainRoom is how many bytes a chain has at most.
const chainRoom = (8 + fieldBytes + 2*4) * maxBlocks

// appendChain appends the blocks of a prompt that are recorded as one argument, in the format of lua/prefix.lua.
func appendChain(b []byte, p *lb.Prefix) []byte {
	var room [chainRoom]byte
	o := orderOf(p.Blocks)
	return appendArg(b, o.appendKeys(room[:0], p, 0, o.n))
}

// appendWholeChain appends all blocks in their order, in the format of lua/forget.lua.
func appendWholeChain(b []byte, p *lb.Prefix) []byte {
	var room [chainRoom]byte
	chain, blocks := wire.Writer(room[:0]), p.Blocks[:min(len(p.Blocks), maxBlocks)]
	pages := uint64(pageCount(p.IndexMemory.Remote))
	for _, block := range blocks {
		chain = chain.Uint64(block.Key)
	}
	for _, block := range blocks {
		own := block.Key % pages
		if block.Inner {
			own |= innerBit
		}
		chain = chain.Uint(fieldBytes, own)
	}
	return appendArg(b, chain)
}

// appendNumberedChain appends all blocks, what is known up to each, and what that is worth, in the format of
// lua/reserve.lua.
func appendNumberedChain(b []byte, p *lb.Prefix, o *blockOrder) []byte {
	var room [chainRoom]byte
	chain := o.appendKeys(o.appendKeys(room[:0], p, 0, o.n), p, o.n, o.all)
	for _, i := range o.index[:o.all] {
		chain = chain.Uint32(uint32(p.Blocks[i].End))
	}
	if p.CreditBytes != nil {
		for _, i := range o.index[:o.all] {
			chain = chain.Uint32(p.CreditBytes[i])
		}
	}
	return appendArg(b, chain)
}

// appendAdded appends what the request adds to the load, in the format of reserve.lua's params.
func appendAdded(params wire.Writer, p *lb.Plan, tokens int64) wire.Writer {
	return params.Float64(float64(tokens)).Uint32(uint32(p.Random)).Byte(byte(p.Unit)).
		Uint32(uint32(min(max(p.PerRequest, 0), math.MaxUint32))).Float64(max(p.Stall, 0))
}

// pages are the index pages of a scope, as far as this owner has extended when they expire.
type pages struct {
	count    int           // that the latest reservation named
	expireAt time.Duration // when they expire at the earliest
}

// appendPrefix appends the credit for what is cached of the prompt, and the TTLs of cache entries.
func (ps *pages) appendPrefix(params wire.Writer, now time.Duration, x *lb.Prefix, o *blockOrder) wire.Writer {
	ttl := min(x.TTL, lb.MaxTTL)
	params = params.Byte(byte(o.all)).Byte(byte(o.all - o.n)).Float64(x.Credit).Float64(max(x.CreditGrowth, 0)).
		Float64(float64(x.Bytes)).Float64(float64(min(max(x.Tokens, 0), maxExact))).
		Uint32(uint32(ttl.Milliseconds())).Byte(ps.expiryDue(now, pageCount(x.IndexMemory.Remote), ttl))
	for _, k := range x.ShortTTL {
		params = params.Uint32(k.Endpoint).Uint16(uint16(min(max(0, k.TTL), lb.MaxTTL) / tick))
	}
	return params
}

// expiryDue returns 1 if the reservation has to extend the expiry of so many pages, else 0. It has to if less than
// seven eighths of the TTL are left, or if this owner last used another number of pages.
func (ps *pages) expiryDue(now time.Duration, n int, ttl time.Duration) byte {
	if n == ps.count && ps.expireAt-now >= ttl-ttl/8 {
		return 0
	}
	ps.count, ps.expireAt = n, now+ttl
	return 1
}
