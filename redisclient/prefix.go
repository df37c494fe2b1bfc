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

// appendChain appends the blocks of a prompt as one argument, in the format of lua/prefix.lua: their keys, the fields
// of their own pages, then for each function its value for each block.
func appendChain(b []byte, p *lb.Prefix, numbers ...func(i int) uint32) []byte {
	var room [(8 + fieldBytes + 2*4) * maxBlocks]byte
	chain, blocks := wire.Writer(room[:0]), p.Blocks[:min(len(p.Blocks), maxBlocks)]
	pages := uint64(pageCount(p.IndexMemory.Remote))
	for _, block := range blocks {
		chain = chain.Uint64(block.Key)
	}
	for _, block := range blocks {
		chain = chain.Uint(fieldBytes, block.Key%pages)
	}
	for _, of := range numbers {
		for i := range blocks {
			chain = chain.Uint32(of(i))
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
func (ps *pages) appendPrefix(params wire.Writer, now time.Duration, x *lb.Prefix) wire.Writer {
	ttl := min(x.TTL, lb.MaxTTL)
	params = params.Byte(byte(min(len(x.Blocks), maxBlocks))).Float64(x.Credit).Float64(max(x.CreditGrowth, 0)).
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
