// Package prefixindex has the dimensions of a prefix index, which are the same in every store: the index records which
// endpoints have which prefix blocks in their KV cache.
//
// An index is a hash table with a fixed number of buckets, called pages. A page is a list of entries, one for each
// block that it holds; an entry that was recorded later is nearer to the front. All values are little-endian:
//
//	offset      size  in an entry
//	0           8     key of the block; its last byte is the block's tenant, 0 for none
//	8 + 6i      4     i-th endpoint that has the block, as [lb.EndpointTag]; 0 for none
//	12 + 6i     2     tick in which that endpoint was last recorded to have it
//
// with i from 0 to MaxHolders - 1, the latest first. A page is 0 to MaxEntries entries long and has no header.
//
// A block's entry is in one of two pages: the one with the number key modulo the number of pages, or the one that holds
// the entry of the block before it in the prompt. package memstore stores a page as a value of shared memory of its
// own; package redisclient stores it as a field of a hash.
//
// [lb.EndpointTag]: https://pkg.go.dev/github.com/warmgate/warmgate/lb#EndpointTag
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
// its entries. Of so many blocks 99 % are found again even if all other entries are those of older blocks; of two
// thirds it would be 98.5 %.
func Blocks(pages int) int { return max(pages, MinPages) * MaxEntries * 3 / 5 }
