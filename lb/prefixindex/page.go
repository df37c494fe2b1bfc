// Package prefixindex describes the prefix index, which every store has in the same form: it records which endpoints
// have which prefix blocks in their KV cache.
//
// The index is a hash table with a fixed number of buckets, called pages. A page is a list of 0 to 63 entries of 32
// bytes, without a header. Each entry is of one block, and those that were recorded last are in front. All numbers are
// little-endian:
//
//	offset  size  entry
//	0       8     key of the block; the last byte is its tenant, 0 for none
//	8       6     the endpoint that was recorded last to have the block
//	14      6     the next older one
//	20      6     the next older one
//	26      6     the oldest one
//
//	offset  size  endpoint in an entry
//	0       4     lb.EndpointTag of its address, 0 if there is none
//	4       2     tick in which it was recorded
//
// A block's entry is in one of two pages: in its own page, which has the number key modulo the number of pages, or in
// the page of the block before it in the prompt. Package memstore has a value of shared memory for each page, package
// redisclient a field of a hash.
package prefixindex

import "time"

// The layout of a page, in bytes if not stated otherwise.
const (
	KeySize    = 8
	HolderSize = 6
	MaxHolders = 4 // endpoints in an entry
	EntrySize  = KeySize + MaxHolders*HolderSize

	// MaxEntries is how many entries a page may have. They take a little less than the 2 KiB that an allocator reserves
	// for them; one more, and a page would take a quarter more.
	MaxEntries  = 63
	MaxPageSize = MaxEntries * EntrySize

	// MinPages is how many pages an index has at least, whatever the bytes that it may use.
	MinPages = 16
)

const (
	// Tick is the unit of time in an entry. A tick is a 16-bit number and wraps after three days; an entry that has not
	// been changed for so long may then count as fresh, which costs one wrong choice.
	Tick = 4 * time.Second
	// FreshTicks is the age below which an endpoint is not recorded again. Without it each request would write the
	// blocks that all prompts begin with.
	FreshTicks = 8
)

// Blocks returns how many prefix blocks an index of the given number of pages can be relied on to hold: three fifths of
// the entries that its pages have room for. The other two fifths are a reserve, because pages do not fill evenly: a
// full page evicts entries while others have room.
//
// With that reserve, of the blocks that were recorded last, as many as Blocks returns, 99 % are still found, even in an
// index that is full of older blocks. Of two thirds of the entries it would be 98.5 %.
func Blocks(pages int) int { return max(pages, MinPages) * MaxEntries * 3 / 5 }
