package lb

// PageBlocks returns how many blocks of prompts so many pages have room for, in any store.
func PageBlocks(pages int) int { return max(pages, leastSlots) * mostEntries }

// TableBlocks returns how many blocks of prompts the embedded store has room for in so many bytes.
func TableBlocks(room int) int { return PageBlocks(room / pageMost) }
