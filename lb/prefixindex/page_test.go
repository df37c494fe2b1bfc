package prefixindex

import "testing"

// A page fits into the 2 KiB that an allocator reserves for it, with a byte that ends it; with one more entry it would
// not.
func TestPageFitsItsAllocation(t *testing.T) {
	const allocated, end = 2048, 1
	if EntrySize != 32 || MaxPageSize+end > allocated || MaxPageSize+EntrySize+end <= allocated {
		t.Errorf("%d entries of %d bytes are a page of %d bytes", MaxEntries, EntrySize, MaxPageSize)
	}
}

// Blocks grows with the pages and stays below the entries that they have room for; a small index has the room of the
// smallest.
func TestBlocks(t *testing.T) {
	last := 0
	for pages := range 1000 {
		n := Blocks(pages)
		if n < last || n > max(pages, MinPages)*MaxEntries || pages > MinPages && n <= last {
			t.Fatalf("%d pages hold %d blocks, one less %d", pages, n, last)
		}
		last = n
	}
	if Blocks(-1) != Blocks(MinPages) {
		t.Errorf("a negative number of pages holds %d blocks", Blocks(-1))
	}
}
